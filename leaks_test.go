package eddy

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/internal/transport"
)

// leakLog collects what leak detection tells.
type leakLog struct {
	mu    sync.Mutex
	leaks []buf.Leak
}

func (l *leakLog) add(leak buf.Leak) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaks = append(l.leaks, leak)
}

// collected runs the collector until n leaks were told and returns them.
func (l *leakLog) collected(t *testing.T, n int) []buf.Leak {
	t.Helper()
	var leaks []buf.Leak
	until(t, fmt.Sprint(n, " leaks"), func() bool {
		runtime.GC()
		l.mu.Lock()
		defer l.mu.Unlock()
		leaks = slices.Clone(l.leaks)
		return len(leaks) >= n
	})
	return leaks
}

// TestLeakDetectionAtBootstrap: the level is the Group's, or the environment's; each but off is told to the listener and
// counted.
func TestLeakDetectionAtBootstrap(t *testing.T) {
	for name, c := range map[string]struct {
		field buf.LeakLevel
		env   string
		want  buf.LeakLevel
		err   string
	}{
		"default":                  {want: buf.LeakOff},
		"advanced":                 {field: buf.LeakAdvanced, want: buf.LeakAdvanced},
		"environment":              {env: "simple", want: buf.LeakSimple},
		"the field has precedence": {field: buf.LeakOff, env: "paranoid", want: buf.LeakOff},
		"unknown":                  {env: "often", err: `eddy: $EDDY_LEAKS: buf: leak level "often"`},
		"beyond":                   {field: 77, err: "eddy: Group.LeakDetection: buf: leak level 77"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("EDDY_LEAKS", c.env)
			told := new(leakLog)
			g := &Group{Loops: 1, LeakDetection: c.field, OnLeak: told.add, Logger: slog.New(slog.DiscardHandler)}
			if g.Buffers() != nil {
				t.Error("Buffers before the start is not nil")
			}
			err := g.Start()
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("Start = %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			if got := g.crew.Load().leaks.Level(); got != c.want {
				t.Fatalf("level %v, want %v", got, c.want)
			}
			if c.want == buf.LeakOff {
				return
			}
			dropBuffers(g.Buffers(), 2000)
			leak := told.collected(t, 1)[0]
			if knows := strings.HasPrefix(leak.Origin, "eddy.dropBuffers "); knows != (c.want > buf.LeakSimple) {
				t.Errorf("%v told of %+v", c.want, leak)
			}
		})
	}
}

//go:noinline
func dropBuffers(p *buf.SharedPool, n int) {
	for range n {
		p.Get(100)
	}
}

// TestLostSegmentOfTheEngineIsFound: a segment that a loop handed out and never got back is told with the place in the
// engine that took it.
func TestLostSegmentOfTheEngineIsFound(t *testing.T) {
	t.Setenv("EDDY_LEAKS", "paranoid")
	log := new(lockedBuffer)
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Logger = slog.New(slog.NewTextHandler(log, nil))
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send("unfinished")
	l.Iterate()
	a.conn.in = transport.Leftover{} // as a bug would
	stepUntil(t, "the report", func() bool { runtime.GC(); return log.String() != "" })
	for _, want := range []string{"dropped without its release", "kind=segment bytes=512 level=paranoid", `origin="transport.(*Leftover).Keep `, `touches="[Append by transport.(*Leftover).Keep `} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

// lockedBuffer takes the lines of a logger that several goroutines use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestEngineReleasesEverything: a server under traffic of every kind (unfinished frames, large frames, messages that cross
// a pool, counted buffers and composites to many connections on several loops, clients that vanish) loses no segment and
// no buffer, by the word of the strictest leak detection.
func TestEngineReleasesEverything(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	told, room := new(leakLog), new(room)
	g := &Group{Loops: 3, LeakDetection: buf.LeakParanoid, OnLeak: told.add, Logger: slog.New(slog.DiscardHandler)}
	srv := &Server{Group: g, Pools: []*executor.Pool{pool}, Logger: g.Logger, FlushTimeout: time.Second, Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		p.Add("pool", Handle(func(ctx *Context, m *buf.Bytes) error { ctx.FireRead(m); return nil }), On(pool))
		return p.Add("room", room)
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	message := append(bytes.Repeat([]byte("m"), 3000), ';')
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			c, err := net.Dial("tcp", srv.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(testkit.Patience))
			for k := range 20 {
				size := []int{10, 1000, 2900, 3001}[(i+k)%4]
				if _, err := c.Write(message[len(message)-size:]); err != nil {
					return // told to go
				}
				if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
					return
				}
			}
			c.Write(bytes.Repeat([]byte("large frame"), 20_000))
			c.Write([]byte(";unfinished"))
			if i%3 == 0 {
				c.(*net.TCPConn).SetLinger(0) // a reset
			}
		})
	}
	wg.Wait()
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if st := srv.Stats(); st.LiveBuffers != 0 || st.Leaks != 0 {
		t.Errorf("%d counted buffers are live, %d leaks", st.LiveBuffers, st.Leaks)
	}
	if room.written() == 0 {
		t.Error("nothing was broadcast")
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	room.members = nil
	const onPurpose = 3
	for i := range onPurpose { // whatever else was lost is told by then
		dropBuffers(g.Buffers(), 1)
		stepUntil(t, "the leak on purpose", func() bool { runtime.GC(); return srv.Stats().Leaks > uint64(i) })
	}
	for _, leak := range told.collected(t, 1) {
		if !strings.HasPrefix(leak.Origin, "eddy.dropBuffers ") {
			t.Errorf("%+v", leak)
		}
	}
	if st := srv.Stats(); st.LiveBuffers != onPurpose || st.Leaks != onPurpose {
		t.Errorf("after leaks on purpose: %d counted buffers live, %d leaks", st.LiveBuffers, st.Leaks)
	}
}

// room sends what one member says to all.
type room struct {
	mu      sync.Mutex
	members []*Conn
	sent    int
}

func (r *room) written() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent
}

func (r *room) HandleOpen(ctx *Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members = append(r.members, ctx.Conn())
	return nil
}

func (r *room) HandleRead(ctx *Context, msg any) error {
	text := msg.(*buf.Bytes).Bytes()
	s := ctx.Conn().Buffers().Copy(text)
	r.mu.Lock()
	members := r.members[:len(r.members):len(r.members)]
	r.sent += len(members)
	r.mu.Unlock()
	for i, c := range members {
		if i%2 == 0 {
			_ = c.Write(s.Retain()) // a member that has left refuses it
			continue
		}
		m := new(buf.Composite)
		m.AppendShared(s.Retain())
		m.Append([]byte(";"))
		_ = c.Write(m)
	}
	s.Release()
	return nil
}
