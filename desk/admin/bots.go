package admin

// bots returns those that a site may have.
func (q *request) bots() ([]bot, error) { return nil, nil }
