package eddy

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// TestPeerEndsInsideAFrame: what was queued for earlier requests is sent although the peer ends inside the next one, and
// with half-close also what is still being answered; then the connection ends as incomplete.
func TestPeerEndsInsideAFrame(t *testing.T) {
	for _, half := range []bool{true, false} {
		for _, c := range []struct{ name, in, out string }{
			{"response queued", "echo;part", "echo"},
			{"response to come", "later;part", "later"},
			{"nothing before", "part", ""},
		} {
			srv := cutServer(func(ctx *Context, msg string) error {
				if msg == "later" {
					ctx.Conn().Begin()
					return nil
				}
				return ctx.Write([]byte(msg))
			})
			srv.CloseOnEOF = !half
			st, l := newStage(t, srv)
			a := st.connect(l)
			a.room = 0
			a.send(c.in)
			l.Iterate()
			a.eof = true
			a.room = 1 << 40
			l.Iterate()
			want := c.out
			if c.out == "later" {
				if half {
					if a.closed != 0 {
						t.Fatalf("%s: closed before the answer", c.name)
					}
					submit(t, l, a, "later")
					a.conn.End()
				} else {
					want = ""
				}
			}
			for range 3 {
				l.Iterate()
			}
			a.wantEnd(t, c.name, CloseIncompleteRequest)
			if err := a.conn.CloseError(); !errors.Is(err, errIncomplete) {
				t.Errorf("%s: %v", c.name, err)
			}
			if string(a.out) != want {
				t.Errorf("half-close %v, %s: sent %q, want %q", half, c.name, a.out, want)
			}
		}
	}
}

// refuser is a protocol that refuses requests while its server shuts down, and tells so.
type refuser struct{ executed []string }

func (r *refuser) HandleRead(ctx *Context, msg any) error {
	word := string(msg.(*buf.Bytes).Bytes())
	if ctx.Conn().Draining() {
		return ctx.Write([]byte("unavailable, not executed: " + word + ";"))
	}
	r.executed = append(r.executed, word)
	if word == "slow" {
		ctx.Conn().Begin()
		return nil
	}
	return ctx.Write([]byte(word + ";"))
}

// TestNewRequestsWhileDraining: requests that reach a persistent connection while its server shuts down are not
// executed; the protocol can say so. The request in flight is answered, then the connection ends.
func TestNewRequestsWhileDraining(t *testing.T) {
	var r refuser
	srv := &Server{Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		return p.Add("app", &r)
	}}
	st, l := newStage(t, srv)
	a, idle := st.connect(l), st.connect(l)
	a.send("slow;")
	l.Iterate()
	if a.conn.Draining() {
		t.Error("draining before the shutdown")
	}
	l.startDrain(&srv.endpoint)
	l.Iterate()
	a.send("new;newer;")
	l.Iterate()
	if got := string(a.out); got != "unavailable, not executed: new;unavailable, not executed: newer;" {
		t.Errorf("sent %q", got)
	}
	if idle.eof = true; !idle.shutdown || a.shutdown {
		t.Errorf("FIN sent: idle %v, busy %v", idle.shutdown, a.shutdown)
	}
	submit(t, l, a, "answer;")
	a.conn.End()
	l.Iterate()
	if !a.shutdown || !strings.HasSuffix(string(a.out), "answer;") {
		t.Errorf("sent %q, FIN %v", a.out, a.shutdown)
	}
	a.eof = true
	l.Iterate()
	a.wantEnd(t, "in the end", CloseServerShutdown)
	idle.wantEnd(t, "in the end", CloseServerShutdown)
	if len(r.executed) != 1 {
		t.Errorf("executed %q", r.executed)
	}
}

// turnTaker is a decoder whose requests end with ';' and are served one at a time: it pauses reads while one is in hand.
type turnTaker struct {
	busy bool
	got  []string
}

func (d *turnTaker) Decode(ctx *Context, view []byte) (int, error) {
	if d.busy {
		ctx.Conn().PauseRead()
		return 0, nil
	}
	n := bytes.IndexByte(view, ';') + 1
	if n > 0 {
		d.busy = true
		d.got = append(d.got, string(view[:n]))
		ctx.Conn().Begin()
	}
	return n, nil
}

// done ends the request in hand and resumes reads. Loop only.
func (d *turnTaker) done(c *Conn) {
	if d.busy {
		d.busy = false
		c.End()
		c.ResumeRead()
	}
}

// TestEndBehindAPause: requests that a decoder has left in hand with a pause are served although the peer's end is there before the loop
// has resumed them. Only what is then no whole request was cut short.
func TestEndBehindAPause(t *testing.T) {
	for sent, want := range map[string]struct {
		got    string
		reason CloseReason
	}{
		"a;b;c;": {"a; b; c;", ClosePeerClosed},
		"a;b;c":  {"a; b;", CloseIncompleteRequest},
	} {
		d := new(turnTaker)
		st, l := newStage(t, &Server{Loops: 1, Logger: slog.New(slog.DiscardHandler), Init: func(p *Pipeline) error { return p.Add("turns", d) }})
		a := st.connect(l)
		a.send(sent)
		l.Iterate()
		a.eof = true
		for range 5 {
			if err := a.conn.Post(func() { d.done(a.conn) }); err != nil { // a task of the iteration whose input and output have the end
				break
			}
			l.Iterate()
		}
		a.wantEnd(t, sent, want.reason)
		if got := strings.Join(d.got, " "); got != want.got {
			t.Errorf("%s: served %q, want %q", sent, got, want.got)
		}
	}
}
