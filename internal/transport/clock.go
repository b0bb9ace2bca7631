package transport

// Clock is since when something runs, or until when something must be over: one time, whose sign says which. Zero is
// neither. Times are monotonic ns above 0.
type Clock int64

// Since returns the Clock of what runs since t.
func Since(t int64) Clock { return Clock(t) }

// Until returns the Clock of what must be over at t.
func Until(t int64) Clock { return Clock(-t) }

// Since returns since when something runs, 0 if nothing does.
func (c Clock) Since() int64 { return int64(max(c, 0)) }

// Until returns when something must be over, 0 if nothing must.
func (c Clock) Until() int64 { return -int64(min(c, 0)) }
