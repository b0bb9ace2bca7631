package eddy

// admit counts a connection before it exists and undoes that when the limit is passed, so that a burst of accepts
// cannot overshoot.
func (s *Server) admit(set *settings) bool {
	n := s.active.Add(1)
	if set.maxConns > 0 && n > int64(set.maxConns) {
		s.active.Add(-1)
		return false
	}
	return true
}

// release undoes one admit, exactly once per connection, and tells a Shutdown that waits.
func (s *Server) release() {
	if s.active.Add(-1) == 0 {
		select {
		case s.released <- struct{}{}:
		default:
		}
	}
}
