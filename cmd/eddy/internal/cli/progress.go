package cli

import (
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
)

const (
	// PatienceOfPeople is how long a person waits for a sign of progress.
	PatienceOfPeople = 2 * time.Second
	// logEvery is the time between two lines of progress in a log.
	logEvery = 10 * time.Second
)

// IsTerminal reports whether w is a terminal that a person looks at and that may show colours.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && isatty.IsTerminal(f.Fd())
}

// Pace says when the next line of progress is due. It belongs to one goroutine.
type Pace struct {
	every time.Duration
	next  time.Time
}

// Pace returns a pace that begins now. The first line is due after two seconds. Further ones are due every two seconds
// on a terminal, and every ten elsewhere.
func (t *Terminal) Pace(now time.Time) *Pace {
	p := &Pace{every: logEvery, next: now.Add(PatienceOfPeople)}
	if IsTerminal(t.Err) {
		p.every = PatienceOfPeople
	}
	return p
}

// Due reports whether a line is due, and if so when the next one is.
func (p *Pace) Due(now time.Time) bool {
	if now.Before(p.next) {
		return false
	}
	p.next = now.Add(p.every)
	return true
}

// Progress returns a function that prints how many bytes of the total are done.
func (t *Terminal) Progress(what string, from time.Time) func(done, total int64) {
	p := t.Pace(from)
	return func(done, total int64) {
		if total > 0 && p.Due(time.Now()) {
			t.Note("%s: %s of %s, %d %%", what, Size(done), Size(total), done*100/total)
		}
	}
}

// Meanwhile prints how long something has taken, until done is called. It is for work that cannot tell how far it is.
func (t *Terminal) Meanwhile(what string) (done func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		from := time.Now()
		p := t.Pace(from)
		for {
			select {
			case <-stop:
				return
			case now := <-time.After(time.Until(p.next)):
				if p.Due(now) {
					t.Note("%s: %s", what, now.Sub(from).Round(time.Second))
				}
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}
