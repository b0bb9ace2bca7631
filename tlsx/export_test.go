package tlsx

// SetClock makes the rates of l follow a clock of the test. It comes before the first connection.
func (l *Layer) SetClock(now func() int64) { l.now = now }
