package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/trace"
)

// tracedRig is a hub that records a share of its commands.
func tracedRig(t *testing.T, share float64) (*rig, *trace.Recorder) {
	t.Helper()
	rec, err := trace.New(trace.Options{Sample: share, Keep: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, Options{Trace: rec}), rec
}

// summary returns the only record with a name.
func summary(t *testing.T, rec *trace.Recorder, name string) *trace.Summary {
	t.Helper()
	var found *trace.Summary
	testkit.Eventually(t, name+" to be recorded", func() bool {
		all := slices.DeleteFunc(rec.Slowest(), func(s *trace.Summary) bool { return s.About.Name != name })
		if len(all) > 1 {
			t.Fatalf("%d records of %s", len(all), name)
		}
		if len(all) == 1 {
			found = all[0]
		}
		return found != nil
	})
	return found
}

// stages returns where a request has been, such as "queue wait (store)".
func stages(s *trace.Summary) (all []string) {
	for _, p := range s.Stages {
		name := p.Stage.String()
		if p.Where != "" {
			name += " (" + p.Where + ")"
		}
		all = append(all, name)
	}
	return all
}

// TestCommandStages: the record of a command says where it has been: one that is stored in the queues of its conversation and of the
// store, one that reads in the queue of its readers, and one that is answered at once in none.
func TestCommandStages(t *testing.T) {
	r, rec := tracedRig(t, 1)
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "human")
	ann.Send(conv, "hello")
	r.ok(ann.Flushed(r.ctx))
	r.do(ann, "sync", conv, proto.Sync{Limit: 10})
	r.do(lin, "agents", "", struct{}{})
	r.do(lin, "history", "", proto.History{})
	const stored = "dispatch, handler (session), queue wait (conversation), queue wait (store), handler (store), hop"
	for name, want := range map[string]string{
		"conv.open": stored, "msg.send": stored, "sync": "dispatch, handler (session), queue wait (customer), handler (customer)",
		"agents": "dispatch, handler (session)", "history": "dispatch, handler (session), queue wait (agent), handler (agent)",
	} {
		s := summary(t, rec, name)
		if got := strings.Join(stages(s), ", "); got != want || s.Failed != "" || s.About.Protocol != "desk" || s.About.Peer.IsValid() || !s.Self.Valid() {
			t.Errorf("%s: %s, want %s: %+v", name, got, want, s)
		}
	}
}

// TestEveryCommandEnds: each record ends, whatever becomes of the command, and a refusal is its failure.
func TestEveryCommandEnds(t *testing.T) {
	r, rec := tracedRig(t, 1)
	failed := map[string]string{}
	end := func(what, fails string, send func()) {
		t.Helper()
		before := rec.Stats()
		send()
		testkit.Eventually(t, what+" to end", func() bool { n := rec.Stats(); return n.Sampled > before.Sampled && n.Ended == n.Sampled })
		failed[what] = fails
	}
	end("hello", "unauthorized", func() {
		c := r.raw(r.dial(Peer{}))
		c.write("hello", "1", "", proto.Hello{Token: "nobody"})
		c.untilClosed(proto.CloseUnauthorized)
	})
	ann, lin := r.raw(r.dial(Peer{})), r.agent("lin")
	end("ping", "", func() { ann.write("ping", "0", "", proto.Ping{}) })
	end("sync", "out_of_order", func() { ann.write("sync", "1", "c", proto.Sync{Limit: 1}) })
	end("welcome", "", func() {
		ann.write("hello", "2", "", proto.Hello{Token: r.visitor()})
		ann.until(func(f desktest.Frame) bool { return f.T == "welcome" })
	})
	var opened desktest.Frame
	end("conv.open", "", func() {
		ann.write("conv.open", "3", "", proto.Open{Wants: "human"})
		opened = ann.until(func(f desktest.Frame) bool { return f.RE == "3" })
	})
	conv := opened.C
	for i, c := range []struct {
		t, fails string
		d        any
	}{
		{"typing", "", proto.Typing{On: true}}, {"receipt", "", proto.Receipt{Delivered: 1}}, {"visit", "", proto.Visit{Page: "https://shop.example/"}},
		{"note.send", "forbidden", proto.Note{ClientID: uuid.NewString(), Body: "x"}}, {"msg.send", "bad_request", proto.Send{Kind: "text", Body: "no client id"}},
		{"take", "forbidden", proto.Take{}}, {"no.such.type", "unknown_type", nil}, {"conv.close", "", proto.Close{}},
	} {
		end(c.t, c.fails, func() { ann.write(c.t, fmt.Sprint(10+i), conv, c.d) })
	}
	end("no JSON", "bad_request", func() { ann.text("{") })
	end("active", "", func() { r.ok(lin.Tell(r.ctx, "active", "", struct{}{})) })
	end("status", "", func() { r.do(lin, "status", "", proto.Status{Status: "busy"}) })
	end("watch", "not_found", func() { r.do(lin, "watch", "nothing", struct{}{}) })
	names := map[string]string{"welcome": "hello", "no JSON": "unknown", "no.such.type": "unknown"}
	for what, want := range failed {
		name := what
		if other := names[what]; other != "" {
			name = other
		}
		if !slices.ContainsFunc(rec.Slowest(), func(s *trace.Summary) bool { return s.About.Name == name && s.Failed == want }) {
			t.Errorf("%s: no record of %q that has failed with %q", what, name, want)
		}
	}
}

// TestTrustedSession: the trace of a trusted handshake decides about each command of its session, and is its parent. Without one each
// command that is sampled begins a trace of its own.
func TestTrustedSession(t *testing.T) {
	for _, c := range []struct {
		name    string
		share   float64
		parent  trace.Parent
		sampled bool
	}{
		{"sampled", 0, trace.Parent{Trace: trace.TraceID{1}, Span: trace.SpanID{2}, Sampled: true}, true},
		{"not sampled", 1, trace.Parent{Trace: trace.TraceID{1}, Span: trace.SpanID{2}}, false},
		{"none", 1, trace.Parent{}, true}, {"none, and nothing is sampled", 0, trace.Parent{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, rec := tracedRig(t, c.share)
			ann := r.raw(r.dial(Peer{Trace: c.parent}))
			for i := range 3 {
				ann.write("ping", fmt.Sprint(i), "", proto.Ping{})
			}
			if n := rec.Stats(); c.sampled != (n.Ended == 3) || c.sampled == (n.Unsampled == 3) {
				t.Fatalf("%+v", n)
			}
			own := make(map[trace.TraceID]bool)
			for _, s := range rec.Slowest() {
				if own[s.Self.Trace] = true; s.From != c.parent || c.parent.Valid() && s.Self.Trace != c.parent.Trace || s.Self.Span == c.parent.Span {
					t.Errorf("%+v is below %+v, want %+v", s.Self, s.From, c.parent)
				}
			}
			if want := map[bool]int{true: 1, false: 3}[c.parent.Valid()]; c.sampled && len(own) != want {
				t.Errorf("%d traces, want %d", len(own), want)
			}
		})
	}
}

// timed is a Conn that knows when messages pass the engine.
type timed struct {
	*wire
	sent chan *trace.Request
}

func (timed) Behind() time.Duration   { return time.Hour }
func (c timed) Sent(r *trace.Request) { c.sent <- r }

// TestTimedConn: a connection that knows says how long a command has waited for its loop, and when the answer has gone.
func TestTimedConn(t *testing.T) {
	r, rec := tracedRig(t, 1)
	c := timed{&wire{wake: make(chan struct{})}, make(chan *trace.Request, 1)}
	s := r.theHub().Connect(c, Peer{})
	c.wire.session = s
	t.Cleanup(func() { c.end(1000, "") })
	s.Receive([]byte(`{"t":"ping","id":"1"}`))
	sent := testkit.Receive(t, "the answer", c.sent)
	if len(c.out) != 1 || rec.Stats().Ended != 0 {
		t.Errorf("%d answers, %+v", len(c.out), rec.Stats())
	}
	sent.End()
	if s := summary(t, rec, "ping"); s.Took < time.Hour || s.Reason() != "loop wait: 100 %" {
		t.Errorf("%v: %s", s.Took, s.Reason())
	}
}
