package eddy

import (
	"slices"
	"strings"
	"testing"
)

// TestSubmittedBytesStayCounted: while the loop carries out a write, other goroutines see the queue as long as it is with it,
// whatever the pipeline makes of the message, and afterwards as long as that was.
func TestSubmittedBytesStayCounted(t *testing.T) {
	for name, c := range map[string]struct {
		made   string
		during []int64 // before the message goes on, and behind
		left   int64
	}{
		"as it is":  {"0123456789", []int64{10, 10}, 10},
		"shorter":   {"0123", []int64{10, 10}, 4},
		"longer":    {"0123456789+5..", []int64{10, 14}, 14},
		"nothing":   {"", []int64{10, 10}, 0},
		"a failure": {"panic", []int64{10}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []int64
			srv := cutServer(func(*Context, string) error { return nil })
			init := srv.Init
			srv.Init = func(p *Pipeline) error {
				p.Add("encoder", writeFunc(func(ctx *Context, _ any) error {
					seen = append(seen, ctx.conn.QueuedBytes())
					if c.made == "panic" {
						panic("as the test wants it")
					}
					err := ctx.Write(c.made)
					seen = append(seen, ctx.conn.QueuedBytes())
					return err
				}))
				return init(p)
			}
			st, l := newStage(t, srv)
			a := st.connect(l)
			a.room = 0
			if err := a.conn.Write("0123456789"); err != nil {
				t.Fatal(err)
			}
			l.Iterate()
			if !slices.Equal(seen, c.during) {
				t.Errorf("while it was carried out %v bytes were queued, want %v", seen, c.during)
			}
			if q := a.conn.QueuedBytes(); q != c.left {
				t.Errorf("%d bytes are left in the queue, want %d", q, c.left)
			}
		})
	}
}

// TestSubmittedAnswersHoldTheRest: of messages that came in one read those behind the one whose answer passes the high
// watermark wait, also when answers are submitted and the loop has not reached them yet. None is refused.
func TestSubmittedAnswersHoldTheRest(t *testing.T) {
	submit := func(ctx *Context, msg string) error { return ctx.Conn().Write(strings.Repeat("x", 1000*len(msg))) }
	for _, tc := range []struct {
		name string
		srv  *Server
		wrap func(string) string
	}{
		{"first decoder", cutServer(submit), func(s string) string { return s }},
		{"inside an envelope", innerServer(1, submit), envelope},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.srv.Watermarks = Watermarks{Low: 10_000, High: 50_000, Max: 100_000}
			st, l := newStage(t, tc.srv)
			a := st.connect(l)
			a.room = 0
			a.send(tc.wrap(strings.Repeat(strings.Repeat("a", 20)+";", 20)))
			l.Iterate()
			if q := a.conn.QueuedBytes(); q != 60_000 {
				t.Errorf("%d bytes are queued, want those of three answers", q)
			}
			a.room = 1 << 20
			for range 20 {
				l.Iterate()
			}
			if a.answered() != 20*20 || a.closed > 0 {
				t.Errorf("%d kB answered, want %d; closed %d times", a.answered(), 20*20, a.closed)
			}
		})
	}
}
