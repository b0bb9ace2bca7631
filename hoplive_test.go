package eddy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
)

// pinged answers "ping" on the loop and leaves the rest to a pool.
func pinged(ctx *eddy.Context, m *buf.Bytes) error {
	if string(m.Bytes()) == "ping" {
		return ctx.Write([]byte("pong\n"))
	}
	ctx.FireRead(m)
	return nil
}

// TestFullPoolNeverBlocksALoop: with every worker of a pool blocked and its queue full, a loop answers other connections,
// and what the same connection asks that needs no pool, however many messages for the pool come in, whatever the pool's
// policy and the handler's. (Where a bounded pool blocks who submits, the whole loop stops answering: ants #343.)
func TestFullPoolNeverBlocksALoop(t *testing.T) {
	group := &eddy.Group{Loops: 1}
	defer group.Close()
	offLoop := func() bool { return !group.In() } // what a program gives to CallerRuns and Block
	pools := map[string]executor.Policy{
		"abort": executor.Abort(), "caller runs": executor.CallerRuns(offLoop), "discard": executor.Discard(nil),
		"discard oldest": executor.DiscardOldest(nil), "block": executor.Block(time.Hour, offLoop),
		"block everybody": executor.Block(time.Hour, func() bool { return true }), // hops are refused all the same
	}
	handlers := map[string]eddy.AddOption{
		"reply": eddy.RejectReply(func(any) any { return "busy\n" }), "close": eddy.RejectClose(), "pause": eddy.RejectPause(),
		"function": eddy.RejectFunc(func(ctx *eddy.Context, _ any, err *eddy.HopError) error { return ctx.Write("busy\n") }),
	}
	for poolPolicy, policy := range pools {
		for handlerPolicy, reject := range handlers {
			for name, on := range map[string]func(*executor.Pool) eddy.AddOption{"ordered": eddy.On, "unordered": eddy.OnUnordered} {
				t.Run(fmt.Sprintf("%s, %s, %s", poolPolicy, handlerPolicy, name), func(t *testing.T) {
					pool, err := executor.NewFixed(executor.Options{Name: "stuck", Workers: 2, Queue: 2, Policy: policy})
					if err != nil {
						t.Fatal(err)
					}
					gate := make(chan struct{})
					var inside atomic.Int32 // a worker counts as running before it has taken anything
					srv := &eddy.Server{Group: group, Logger: quiet(), Pools: []*executor.Pool{pool}, Init: func(p *eddy.Pipeline) error {
						p.Add("lines", &lines{})
						p.Add("ping", eddy.Handle(pinged))
						p.Add("spawn", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
							if string(m.Bytes()) != "submit" { // what handlers on the loop submit by themselves
								ctx.FireRead(m)
								return nil
							}
							switch err := pool.SubmitFunc(func() { <-gate }); {
							case err == nil, errors.Is(err, executor.ErrRejected):
								return ctx.Write([]byte("submitted\n"))
							default:
								return err
							}
						}))
						return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { inside.Add(1); <-gate; return reply(ctx, m) }), on(pool), reject)
					}}
					addr := start(t, srv)
					defer close(gate) // before the server ends
					for range 4 {
						io.WriteString(dial(t, addr), "work\n")
					}
					waitFor(t, "a full pool", func() bool { return inside.Load() == 2 && pool.Stats().Queued == 2 })
					other := dial(t, addr)
					or := bufio.NewReader(other)
					for i := range 20 {
						c := dial(t, addr)
						fmt.Fprint(c, "ping\n", strings.Repeat("work\n", i))
						expectLines(t, bufio.NewReader(c), "pong")
						io.WriteString(other, "ping\n")
						expectLines(t, or, "pong")
					}
					if handlerPolicy == "reply" || handlerPolicy == "function" {
						for range 10 { // the same connection goes on after refusals
							io.WriteString(other, "work\nping\n")
							expectLines(t, or, "busy", "pong")
						}
					}
					if !strings.HasPrefix(poolPolicy, "block everybody") {
						io.WriteString(other, "submit\nping\n")
						expectLines(t, or, "submitted", "pong")
					}
					if st := pool.Stats(); st.Running != 2 || st.Queued != 2 || st.CallerRan != 0 || st.Waited != 0 {
						t.Errorf("%+v", st)
					}
				})
			}
		}
	}
}

// TestHandlerOnAPoolEndsItsServer: Shutdown and Close on a worker of one of the server's pools, which they would wait for,
// are refused at once and have done nothing; on a goroutine of its own the handler may.
func TestHandlerOnAPoolEndsItsServer(t *testing.T) {
	for name, on := range map[string]func(*executor.Pool) eddy.AddOption{"ordered": eddy.On, "unordered": eddy.OnUnordered} {
		t.Run(name, func(t *testing.T) {
			pool, err := executor.NewFixed(executor.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, ended := make(chan error, 2), make(chan error, 1)
			srv := &eddy.Server{Loops: 1, Pools: []*executor.Pool{pool}}
			srv.Init = func(p *eddy.Pipeline) error {
				p.Add("lines", &lines{})
				return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
					switch string(m.Bytes()) {
					case "end":
						_, err := srv.Shutdown(context.Background())
						got <- err
						got <- srv.Close()
					case "really end":
						go func() {
							_, err := srv.Shutdown(context.Background())
							ended <- err
						}()
					}
					return reply(ctx, m)
				}), on(pool))
			}
			addr := start(t, srv)
			c := dial(t, addr)
			r := bufio.NewReader(c)
			io.WriteString(c, "end\nstill here\n")
			for range 2 {
				if err := <-got; !errors.Is(err, eddy.ErrOnPool) {
					t.Errorf("%v, want ErrOnPool", err)
				}
			}
			if name == "ordered" {
				expectLines(t, r, "end", "still here")
			} else {
				r.ReadString('\n')
				r.ReadString('\n')
			}
			io.WriteString(c, "really end\n")
			expectLines(t, r, "really end")
			expectEnd(t, c)
			c.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if _, err := net.Dial("tcp", addr); err == nil {
				t.Error("the server still accepts")
			}
		})
	}
}
