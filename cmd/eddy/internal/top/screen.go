package top

import (
	"context"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
)

// enterScreen and the others are control sequences of terminals, from ECMA-48 and xterm.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	topLeft     = "\x1b[H"
	clearLine   = "\x1b[K"
	clearRest   = "\x1b[J"
)

// resizeEvery is how often the size of the terminal is looked at.
const resizeEvery = 200 * time.Millisecond

// topScreen draws until q or a signal, and leaves the terminal as it was.
func topScreen(ctx context.Context, t *cli.Terminal, w *watcher, out *os.File, interval time.Duration) error {
	keys := make(chan byte, 16)
	if in := int(os.Stdin.Fd()); term.IsTerminal(in) {
		was, err := term.MakeRaw(in)
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(in, was) }()
		go readKeys(keys)
	}
	s := &screen{out: out}
	s.write(enterScreen)
	defer s.write(leaveScreen)
	answers := make(chan error, 1)
	look, resize := time.NewTicker(interval), time.NewTicker(resizeEvery)
	defer look.Stop()
	defer resize.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asking, failed := false, error(nil)
	defer func() {
		if asking {
			cancel()
			<-answers
		}
	}()
	for {
		if !asking {
			s.draw(w, failed)
		}
		select {
		case <-t.Signals:
			return nil
		case k := <-keys:
			if k == 'q' || k == 'Q' || k == 3 || k == 4 { // Ctrl+C, Ctrl+D
				return nil
			}
		case failed = <-answers:
			asking = false
		case <-look.C:
			if !asking {
				asking = true
				go func() { answers <- w.look(ctx) }()
			}
		case <-resize.C:
		}
	}
}

// readKeys sends what is typed. A read of a terminal cannot be interrupted everywhere, so the goroutine ends with the
// program, which does not outlive the screen.
func readKeys(keys chan<- byte) {
	var b [1]byte
	for {
		if n, err := os.Stdin.Read(b[:]); err != nil || n == 0 {
			return
		}
		keys <- b[0]
	}
}

// screen is a terminal that is drawn on.
type screen struct {
	out  *os.File
	last string
}

func (s *screen) write(text string) { _, _ = s.out.WriteString(text) } // a terminal that has gone shows nothing

// draw shows the numbers, cut to what the terminal has room for.
func (s *screen) draw(w *watcher, failed error) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		width, height = topWidth, 24
	}
	lines := topFrame(w, width)
	last := "q quits"
	if failed != nil {
		last = "no answer, these numbers are old: " + printable(cli.OneLine(failed))
	}
	if len(lines) > height-1 {
		lines = lines[:height-1]
	}
	lines = append(lines, last)
	var b strings.Builder
	b.WriteString(topLeft)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(cutTo(line, width) + clearLine)
	}
	b.WriteString(clearRest)
	if frame := b.String(); frame != s.last {
		s.last = frame
		s.write(frame)
	}
}
