// Package transport has what one byte stream on a loop is made of, each part on its own. It knows no handler.
//
// table.go has the streams' slots, leftover.go what of the input waits, queue.go what waits to be sent, marks.go what lies
// where in it, progress.go how far a slow peer takes it, clock.go the times.
package transport

import "github.com/go-eddy/eddy/buf"

// MaxGather is the number of segments one gathered write takes.
const MaxGather = 64

// Queue is outbound bytes: a list of segments, each either coalesced small writes or one adopted slice. A segment without
// bytes holds the place of a file. Owned by the loop.
type Queue struct {
	Head, Tail *buf.Segment
}

// Push appends s.
func (q *Queue) Push(s *buf.Segment) { q.Join(Queue{s, s}) }

// Join appends the segments of r, of which there is at least one.
func (q *Queue) Join(r Queue) {
	if q.Tail == nil {
		q.Head = r.Head
	} else {
		q.Tail.Next = r.Head
	}
	q.Tail = r.Tail
}

// Pop takes the head off.
func (q *Queue) Pop() *buf.Segment {
	s := q.Head
	q.unlink(nil, s)
	return s
}

// unlink takes s, which follows before, off the list.
func (q *Queue) unlink(before, s *buf.Segment) {
	if before == nil {
		q.Head = s.Next
	} else {
		before.Next = s.Next
	}
	if s.Next == nil {
		q.Tail = before
	}
	s.Next = nil
}

// extentOf returns the length of s in the stream, see Marks.
func extentOf(s *buf.Segment) int64 { return int64(max(s.Len(), 1)) }

// extent returns the length of the queue.
func (q *Queue) extent() (n int64) {
	for s := q.Head; s != nil; s = s.Next {
		n += extentOf(s)
	}
	return n
}

// reach returns the length of what the next write call can take: a file, or bytes up to the next one.
func (q *Queue) reach() (n int64) {
	for s, i := q.Head, 0; s != nil && i < MaxGather; s, i = s.Next, i+1 {
		if s.Len() == 0 {
			return max(n, 1)
		}
		n += int64(s.Len())
	}
	return n
}

// Gather appends to bufs what one gathered write takes, and returns how many bytes it is.
func (q *Queue) Gather(bufs [][]byte) (_ [][]byte, n int) {
	for s := q.Head; s != nil && len(bufs) < MaxGather && s.Len() > 0; s = s.Next { // none: the place of a file
		bufs = append(bufs, s.Bytes())
		n += s.Len()
	}
	return bufs, n
}

// cut takes out what lies skip behind the head and is n long. It returns the bytes that are gone and the segments that
// nothing is left of.
func (q *Queue) cut(skip, n int64) (bytes int, out Queue) {
	var before *buf.Segment
	for s := q.Head; n > 0; {
		next, size := s.Next, extentOf(s)
		k := min(size-skip, n)
		switch {
		case k <= 0:
			before = s
			skip -= size
		case k == size:
			bytes += s.Len()
			q.unlink(before, s)
			out.Push(s)
			n -= k
		default:
			bytes += int(k)
			s.Cut(int(skip), int(skip+k))
			before = s
			skip, n = 0, n-k
		}
		s = next
	}
	return bytes, out
}
