package http2

import "runtime"

// post tells the loop to look at st. Any goroutine.
func (sc *serverConn) post(st *stream) {
	if st.posted.Swap(true) {
		return // the loop has not looked yet
	}
	sc.mu.Lock()
	first := len(sc.posted) == 0
	sc.posted = append(sc.posted, st)
	sc.mu.Unlock()
	if first && sc.wake.Raise() != nil { // the loop has ended, which has closed the connection
		sc.collectLast()
	}
}

// collectLast ends the requests whose handlers return after the loop has ended.
func (sc *serverConn) collectLast() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, st := range sc.posted {
		st.posted.Store(false)
		if st.done.Load() && !st.returned {
			st.returned = true
			sc.over(st)
		}
	}
	sc.posted = nil
}

// collect looks at the streams that have news.
func (sc *serverConn) collect() {
	if sc.running > 1 {
		runtime.Gosched() // handlers that are ready add what they have, and one write takes it all
	}
	sc.mu.Lock()
	list := sc.posted
	sc.posted, sc.spare = sc.spare, nil
	sc.mu.Unlock()
	for _, st := range list {
		st.posted.Store(false) // what comes from here on is looked at again
		sc.grant(st)
		if st.tunnel != nil {
			st.tunnel.news()
		}
		if st.done.Load() && !st.returned {
			st.returned = true
			sc.running--
			sc.over(st)
			if st.out.isCut() {
				sc.abort(st, &StreamError{Stream: st.id, Code: CodeInternal, Text: "the handler has ended before its response was whole"})
			}
		}
		sc.offer(st)
	}
	sc.pump()
	for _, st := range list {
		if !st.gone {
			sc.keepOut(st)
		}
	}
	clear(list)
	sc.spare = list[:0]
}
