package buf

import (
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

const (
	originDepth  = 12 // callers kept of an allocation
	touchDepth   = 6  // callers kept of a use
	touchesKept  = 4  // latest uses of one buffer
	framesInLine = 4  // callers that a report names
)

// stack is a list of callers, innermost first, 0 behind the last.
type stack [originDepth]uintptr

// trace follows one watched buffer. It must not point at the buffer, which could never be collected then.
type trace struct {
	leaks   *Leaks
	kind    string
	size    int
	cleanup runtime.Cleanup
	history *history // nil at LeakSimple
}

// history is what LeakAdvanced records in addition.
type history struct {
	origin stack

	mu      sync.Mutex
	count   int
	touches [touchesKept]touchPoint // the n-th is at n modulo the length
}

type touchPoint struct {
	what    string
	callers [touchDepth]uintptr
}

// watch makes the collection of v a leak until unwatch is called.
func watch[T any](l *Leaks, v *T, kind string, size int) *trace {
	t := &trace{leaks: l, kind: kind, size: size}
	if l.level >= LeakAdvanced {
		t.history = new(history)
		runtime.Callers(2, t.history.origin[:])
	}
	t.cleanup = runtime.AddCleanup(v, l.report, t)
	return t
}

// unwatch ends the watch after the release of v.
func unwatch[T any](v *T, t *trace) {
	t.cleanup.Stop()
	runtime.KeepAlive(v) // Stop is only sure to come in time while v is reachable
}

// touch notes a use of the buffer. Any goroutine.
func (t *trace) touch(what string) {
	h := t.history
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.touches[h.count%touchesKept]
	h.count++
	p.what = what
	clear(p.callers[:])
	runtime.Callers(2, p.callers[:])
}

func (t *trace) site() leakSite {
	s := leakSite{kind: t.kind}
	if t.history != nil {
		s.origin = t.history.origin
	}
	return s
}

func (t *trace) describe() Leak {
	leak := Leak{Kind: t.kind, Size: t.size}
	h := t.history
	if h == nil {
		return leak
	}
	leak.Origin = callers(h.origin[:])
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := h.count - 1; n >= max(0, h.count-touchesKept); n-- {
		p := &h.touches[n%touchesKept]
		leak.Touches = append(leak.Touches, p.what+" by "+callers(p.callers[:]))
	}
	return leak
}

// where names the allocation and the last use for a panic, "" if they are not known.
func (t *trace) where() string {
	if t == nil || t.history == nil {
		return ""
	}
	leak := t.describe()
	s := ", allocated by " + leak.Origin
	if len(leak.Touches) > 0 {
		s += ", last touched: " + strings.Join(leak.Touches, "; ")
	}
	return s
}

// callers names the innermost callers outside this package: "main.f dir/file.go:12 < main.g dir/file.go:7".
func callers(pcs []uintptr) string {
	n := 0
	for n < len(pcs) && pcs[n] != 0 {
		n++
	}
	var lines []string
	frames := runtime.CallersFrames(pcs[:n])
	for more := n > 0; more && len(lines) < framesInLine; {
		var f runtime.Frame
		f, more = frames.Next()
		if ownFrame(f) {
			continue
		}
		dir, file := filepath.Split(f.File)
		lines = append(lines, path.Base(f.Function)+" "+filepath.Base(dir)+"/"+file+":"+strconv.Itoa(f.Line))
	}
	return strings.Join(lines, " < ")
}

// ownFrame reports whether a frame is of this package, tests apart, or of the runtime.
func ownFrame(f runtime.Frame) bool {
	return strings.HasPrefix(f.Function, "runtime.") ||
		strings.HasPrefix(f.Function, "github.com/go-eddy/eddy/buf.") && !strings.HasSuffix(f.File, "_test.go")
}
