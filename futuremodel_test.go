package eddy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// held is what the queue holds, as Conn.QueuedBytes counts.
func held(c *Conn) int {
	n := queueLen(c)
	if c.has(marked) {
		for _, u := range c.outMarks().Units() {
			if u.File != nil {
				n += window(u.Left)
			}
		}
	}
	return n
}

// modelWrite is one message of the model, and how it went.
type modelWrite struct {
	text   string
	future *Future
	class  *MessageClass
	shared *buf.Shared
	file   *os.File
	told   int
	doneAt int // iteration in which the future completed
}

// futureModel writes messages of every kind, with and without futures, to a socket that takes bytes now and then, and cancels.
type futureModel struct {
	t     *testing.T
	rnd   *rand.Rand
	l     *loop
	a     *actor
	pool  *buf.SharedPool
	disk  *os.File // holds all files, one behind the other
	end   int64
	all   []*modelWrite
	open  []*modelWrite // futures that have not completed
	sent  []int         // bytes, after each iteration
	kinds []*MessageClass
}

func (m *futureModel) message(w *modelWrite) any {
	b := []byte(w.text)
	switch m.rnd.IntN(7) {
	case 0:
		return w.text
	case 1:
		return [][]byte{b[:1], b[1:]}
	case 2:
		w.shared = m.pool.Copy(b)
		return w.shared.Retain()
	case 3:
		w.shared = m.pool.Copy(b[1:])
		c := new(buf.Composite)
		c.Append(b[:1])
		c.AppendShared(w.shared.Retain())
		return c
	case 4:
		if w.class == nil {
			if _, err := m.disk.WriteAt(b, m.end); err != nil {
				m.t.Fatal(err)
			}
			f, err := os.Open(m.disk.Name())
			if err != nil {
				m.t.Fatal(err)
			}
			w.file = f
			m.end += int64(len(b))
			return &File{File: f, Offset: m.end - int64(len(b)), Length: int64(len(b))}
		}
	}
	return b
}

func (m *futureModel) write() {
	w := &modelWrite{class: m.kinds[m.rnd.IntN(len(m.kinds))], doneAt: -1}
	w.text = fmt.Sprintf("<%d %s>", len(m.all), strings.Repeat("x", m.rnd.IntN(3)*m.rnd.IntN(3)*m.rnd.IntN(2000)))
	msg := m.message(w)
	if w.class != nil {
		msg = w.class.Wrap(msg)
	}
	m.all = append(m.all, w)
	if m.rnd.IntN(3) == 0 {
		if err := m.a.conn.Write(msg); err != nil {
			m.t.Fatal(err)
		}
		return
	}
	w.future = m.a.conn.WriteFuture(msg)
	m.open = append(m.open, w)
	w.future.OnDone(func(f *Future) {
		if f != w.future || f.standing() == futurePending {
			m.t.Errorf("%.20s: the listener was given %v", w.text, f.standing())
		}
		w.told++
	})
}

func (m *futureModel) iterate() {
	m.t.Helper()
	m.l.Iterate()
	c := m.a.conn
	if q, n := c.QueuedBytes(), held(c); q != int64(n) && m.l.Tasks.Depth() == 0 {
		m.t.Fatalf("%d bytes counted, %d queued", q, n)
	}
	if c.has(marked) {
		if err := c.outMarks().Check(&c.out); err != nil {
			m.t.Fatal(err)
		}
	}
	m.open = slices.DeleteFunc(m.open, func(w *modelWrite) bool {
		if w.future.standing() == futurePending {
			return false
		}
		w.doneAt = len(m.sent)
		return true
	})
	m.sent = append(m.sent, len(m.a.out))
}

// cancel cancels one of the last futures. One that the model knows to be cancellable must be.
func (m *futureModel) cancel() {
	w := m.all[max(0, len(m.all)-1-m.rnd.IntN(8))]
	if w.future == nil {
		return
	}
	was := w.future.standing()
	if ok := w.future.Cancel(); ok && was != futurePending || ok != (w.future.standing() == futureCanceled && was == futurePending) {
		m.t.Fatalf("Cancel of a future that was %v = %v, now it is %v", was, ok, w.future.standing())
	}
}

// TestFuturesAgainstModel: whatever messages are written, dropped, cancelled and sent in parts, a future succeeds in the very
// iteration in which its last byte goes out, what failed or was cancelled never goes out, everything else does, in order, the
// bytes are counted exactly, and every buffer and file is given back once.
func TestFuturesAgainstModel(t *testing.T) {
	var canceled, dropped, succeeded int
	disk, err := os.Create(filepath.Join(t.TempDir(), "files"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	for seed := range uint64(150) {
		_, l, a := blocked(t, echoServer())
		m := &futureModel{
			t: t, rnd: rand.New(rand.NewPCG(seed, 2)), l: l, a: a, pool: buf.NewSharedPool(0, nil), disk: disk,
			kinds: []*MessageClass{
				nil, nil, nil, nil,
				{Name: "o", Policy: OverflowDropOldest, MaxMessages: 2},
				{Name: "k", Policy: OverflowKeepLatest, MaxMessages: 1},
				{Name: "n", Policy: OverflowDropNewest, MaxMessages: 2},
			},
		}
		for range 150 {
			m.write()
			if m.rnd.IntN(3) == 0 {
				m.cancel()
			}
			if m.rnd.IntN(2) == 0 {
				m.iterate()
			}
			if m.rnd.IntN(4) == 0 {
				m.cancel()
			}
			if m.rnd.IntN(4) == 0 {
				a.room = m.rnd.IntN(4000)
				m.iterate()
			}
		}
		a.room = 1 << 40
		for range 5 {
			m.iterate()
		}
		out := a.drain(t, l)
		at := len("first")
		for _, w := range m.all {
			gone := strings.HasPrefix(out[at:], w.text)
			if gone {
				at += len(w.text)
			}
			w.verdict(m, gone, at)
			if w.future != nil {
				switch w.future.standing() {
				case futureSucceeded:
					succeeded++
				case futureCanceled:
					canceled++
				default:
					dropped++
				}
			}
		}
		if at != len(out) {
			t.Fatalf("seed %d: %.40q was sent and belongs to nobody", seed, out[at:])
		}
		if n := a.conn.ext.Load().futures.n; n != 0 {
			t.Fatalf("seed %d: %d futures are still listed", seed, n)
		}
	}
	t.Logf("%d succeeded, %d cancelled, %d dropped", succeeded, canceled, dropped)
	if canceled < 1000 || dropped < 500 || succeeded < 5000 {
		t.Error("the model has become too tame")
	}
}

// verdict compares one message's fate with its future's.
func (w *modelWrite) verdict(m *futureModel, gone bool, at int) {
	t := m.t
	t.Helper()
	if w.shared != nil {
		if n := w.shared.Refs(); n != 1 {
			t.Fatalf("%.20s: %d references are left, want the test's own", w.text, n)
		}
	}
	if w.file != nil && !isClosed(w.file) {
		t.Fatalf("%.20s: the file is open", w.text)
	}
	if w.future == nil {
		if !gone && w.class == nil {
			t.Fatalf("the ordinary message %.20s was not sent", w.text)
		}
		return
	}
	var de *ClassError
	switch s, err := w.future.standing(), w.future.Err(); {
	case w.told != 1:
		t.Fatalf("%.20s: told %d times", w.text, w.told)
	case gone != (s == futureSucceeded):
		t.Fatalf("%.20s: sent %v, %v, %v", w.text, gone, s, err)
	case s == futureSucceeded && (m.sent[w.doneAt] < at || w.doneAt > 0 && m.sent[w.doneAt-1] >= at):
		t.Fatalf("%.20s: its last byte is number %d; it succeeded in iteration %d, with %d sent", w.text, at, w.doneAt, m.sent[w.doneAt])
	case s == futureFailed && (w.class == nil || !errors.As(err, &de) || !de.Dropped || de.Class != w.class || !errors.Is(err, ErrBackpressure)):
		t.Fatalf("%.20s: failed with %v", w.text, err)
	case s == futureCanceled && err != ErrCanceled:
		t.Fatalf("%.20s: cancelled with %v", w.text, err)
	}
}
