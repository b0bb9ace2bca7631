package main

import (
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
)

const (
	// patienceOfPeople is how long a person waits for a sign of progress.
	patienceOfPeople = 2 * time.Second
	// logEvery is the time between two lines of progress in a log.
	logEvery = 10 * time.Second
)

// isTerminal reports whether w is a terminal that a person looks at and that may show colours.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && isatty.IsTerminal(f.Fd())
}

// pace says when the next line of progress is due. It belongs to one goroutine.
type pace struct {
	every time.Duration
	next  time.Time
}

// pace returns a pace that begins now. The first line is due after two seconds. Further ones are due every two seconds
// on a terminal, and every ten elsewhere.
func (t *terminal) pace(now time.Time) *pace {
	p := &pace{every: logEvery, next: now.Add(patienceOfPeople)}
	if isTerminal(t.err) {
		p.every = patienceOfPeople
	}
	return p
}

// due reports whether a line is due, and if so when the next one is.
func (p *pace) due(now time.Time) bool {
	if now.Before(p.next) {
		return false
	}
	p.next = now.Add(p.every)
	return true
}

// progress returns a function that prints how many bytes of the total are done.
func (t *terminal) progress(what string, from time.Time) func(done, total int64) {
	p := t.pace(from)
	return func(done, total int64) {
		if total > 0 && p.due(time.Now()) {
			t.note("%s: %s of %s, %d %%", what, size(done), size(total), done*100/total)
		}
	}
}

// meanwhile prints how long something has taken, until done is called. It is for work that cannot tell how far it is.
func (t *terminal) meanwhile(what string) (done func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		from := time.Now()
		p := t.pace(from)
		for {
			select {
			case <-stop:
				return
			case now := <-time.After(time.Until(p.next)):
				if p.due(now) {
					t.note("%s: %s", what, now.Sub(from).Round(time.Second))
				}
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}
