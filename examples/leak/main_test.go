package main

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/buf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logBuffer collects what the runtime's goroutine logs.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// TestLeak runs the example under each level.
func TestLeak(t *testing.T) {
	const lines, lost = 1200, 600
	for _, c := range []struct {
		level      buf.LeakLevel
		least      uint64
		says, hush string
	}{
		{buf.LeakOff, 0, "", "release"},
		{buf.LeakSimple, 1, "dropped without its release", "leak/main.go"},
		{buf.LeakAdvanced, 1, `say leak/main.go:`, ""},
		{buf.LeakParanoid, lost - 5, `say leak/main.go:`, ""}, // the last ones may still lie on a stack
	} {
		log := new(logBuffer)
		st, err := run(c.level, lines, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if st.LiveBuffers != lost || st.Leaks < c.least || st.Leaks > lost || c.level == buf.LeakOff && st.Leaks > 0 {
			t.Errorf("%v: %d buffers lost, %d leaks", c.level, st.LiveBuffers, st.Leaks)
		}
		log.mu.Lock()
		text := log.buf.String()
		log.mu.Unlock()
		if !strings.Contains(text, c.says) || c.hush != "" && strings.Contains(text, c.hush) {
			t.Errorf("%v: log %q", c.level, text)
		}
	}
}
