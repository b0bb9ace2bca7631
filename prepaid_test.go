package eddy

import (
	"slices"
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
			l.iterate()
			if !slices.Equal(seen, c.during) {
				t.Errorf("while it was carried out %v bytes were queued, want %v", seen, c.during)
			}
			if q := a.conn.QueuedBytes(); q != c.left {
				t.Errorf("%d bytes are left in the queue, want %d", q, c.left)
			}
		})
	}
}
