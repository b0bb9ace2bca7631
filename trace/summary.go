package trace

import (
	"fmt"
	"slices"
	"time"
)

// Summary is a request that is over. It is not changed any more.
type Summary struct {
	Number uint64 // of the request among those of its Recorder, for Find
	Self   Parent
	From   Parent
	About  About
	Began  time.Time
	Took   time.Duration
	Stages []Span
	Failed string // why, "" for a request that has not
}

// Span is one stage of a request.
type Span struct {
	Stage Stage
	Where string        // the pool or the handler, "" if there is nothing to say
	At    time.Duration // from the begin of the request
	Took  time.Duration
}

// summary returns what is known of the request. r.mu is held.
func (r *Request) summary(now time.Time) *Summary {
	s := &Summary{Self: r.self, From: r.from, About: r.about, Began: r.began, Took: max(0, now.Sub(r.began)), Failed: r.failure}
	s.Stages = make([]Span, len(r.marks))
	for i, m := range r.marks {
		end := now
		if i+1 < len(r.marks) {
			end = r.marks[i+1].at
		}
		s.Stages[i] = Span{Stage: m.stage, Where: m.where, At: m.at.Sub(r.began), Took: max(0, end.Sub(m.at))}
	}
	return s
}

// Longest returns the stage that the request was in for the longest time, the zero value if it had none.
func (s *Summary) Longest() Span {
	if len(s.Stages) == 0 {
		return Span{}
	}
	return slices.MaxFunc(s.Stages, func(a, b Span) int { return int(a.Took - b.Took) })
}

// Reason says in a few words what has taken the time, such as "queue wait (business): 92 %".
func (s *Summary) Reason() string {
	l := s.Longest()
	where := ""
	if l.Where != "" {
		where = " (" + l.Where + ")"
	}
	share := 100.0
	if s.Took > 0 {
		share = 100 * float64(l.Took) / float64(s.Took)
	}
	return fmt.Sprintf("%s%s: %.0f %%", l.Stage, where, share)
}
