package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/internal/testkit"
)

// bodyOf returns the text of a message event, "" for other events.
func bodyOf(f desktest.Frame) string {
	if f.T != "ev.msg" {
		return ""
	}
	var m proto.Msg
	f.Decode(&m)
	return m.Body
}

// A sender is one party of one conversation that sends numbered messages.
type sender struct {
	client *desktest.Client
	name   string
	conv   string
	sent   []string     // client ids in the order of sending
	given  map[int]bool // numbers of messages that were refused because the chat was nobody's or another agent's at that moment
}

// body is the text of the sender's message number n.
func (s *sender) body(n int) string { return fmt.Sprintf("%s message %d", s.name, n) }

// fill sends until n messages are without acknowledgement.
func (s *sender) fill(n int) {
	for range n - (len(s.sent) - len(s.acks()) - len(s.given)) {
		s.sent = append(s.sent, s.client.Send(s.conv, s.body(len(s.sent))))
	}
}

// TestKillLosesNothing kills the desk with SIGKILL again and again while customers and an agent send, and starts it anew on the same data. In
// the end every message is stored exactly once, those that were acknowledged with the id and place of their acknowledgement, in the order
// of their sender, without a gap; and every client shows the same.
func TestKillLosesNothing(t *testing.T) {
	t.Parallel()
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	const customers, taken, open = 6, 3, 6 // a customer may send 10 messages at once, an agent 20; a restart forgets what was sent before
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	ctx := testkit.Context(t)
	data, account := cmdtest.MadeDesk(t)
	var base atomic.Pointer[string]
	restart := func() *cmdtest.Process {
		p := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data)
		url := "http://" + p.Addr
		base.Store(&url)
		return p
	}
	p := restart()
	web := desktest.NewWeb(func() string { return *base.Load() })
	defer web.CloseIdle()
	agent := web.Agent(account[1], account[2])
	defer agent.Close()
	senders := gatherSenders(ctx, t, web, agent, customers, taken)

	for round := range rounds {
		before := acked(senders)
		for _, s := range senders {
			s.fill(open)
		}
		goal := before + random.IntN(len(senders)*open)
		waitAcks(ctx, t, senders, goal)
		p.Signal(syscall.SIGKILL)
		p.Wait()
		t.Logf("round %d: killed after %d acknowledgements of this round", round+1, acked(senders)-before)
		p = restart()
	}
	for _, s := range senders {
		if err := s.client.Flushed(ctx); err != nil {
			t.Fatal(err)
		}
	}
	checkLogs(ctx, t, web, account, senders)
	p.Stop()
}

// gatherSenders opens the conversations; the agent takes some of them and sends there too.
func gatherSenders(ctx context.Context, t *testing.T, web *desktest.Web, agent *desktest.Client, customers, taken int) (senders []*sender) {
	t.Helper()
	for i := range customers {
		c := web.Customer("demo")
		t.Cleanup(c.Close)
		conv, err := c.Open(ctx, "human")
		if err != nil {
			t.Fatal(err)
		}
		senders = append(senders, &sender{client: c, name: fmt.Sprintf("customer %d", i), conv: conv, given: make(map[int]bool)})
		if i >= taken {
			continue
		}
		if err := agent.Take(ctx, conv); err != nil {
			t.Fatal(err)
		}
		senders = append(senders, &sender{client: agent, name: fmt.Sprintf("agent to %d", i), conv: conv, given: make(map[int]bool)})
	}
	return senders
}

// acks returns the acknowledgements of a sender's messages.
func (s *sender) acks() (own []desktest.Acked) {
	for _, a := range s.client.Acks() {
		if a.Conv == s.conv {
			own = append(own, a)
		}
	}
	return own
}

func acked(senders []*sender) (n int) {
	for _, s := range senders {
		n += len(s.acks())
	}
	return n
}

// waitAcks waits until the senders have goal acknowledgements in all.
func waitAcks(ctx context.Context, t *testing.T, senders []*sender, goal int) {
	t.Helper()
	if err := ackedWithin(ctx, senders, goal); err != nil {
		t.Fatalf("%d of %d acknowledgements: %v", acked(senders), goal, err)
	}
}

// ackedWithin is waitAcks for those who do not count on it: it returns the error of ctx, if that ends first.
func ackedWithin(ctx context.Context, senders []*sender, goal int) error {
	tick := time.NewTicker(time.Millisecond) // not rarer: the others should still be under way
	defer tick.Stop()
	for acked(senders) < goal {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// checkLogs reads each conversation from the start, as a new client would, and compares it with what was promised and shown.
func checkLogs(ctx context.Context, t *testing.T, web *desktest.Web, account []string, senders []*sender) {
	t.Helper()
	reader := web.Agent(account[1], account[2])
	defer reader.Close()
	logs := map[string][]desktest.Frame{}
	for _, s := range senders {
		if logs[s.conv] == nil {
			logs[s.conv] = readLog(ctx, t, reader, s.conv)
		}
		checkSender(t, s, logs[s.conv])
		checkView(ctx, t, s, logs[s.conv])
	}
}

// readLog fetches every event of a conversation.
func readLog(ctx context.Context, t *testing.T, c *desktest.Client, conv string) (events []desktest.Frame) {
	t.Helper()
	for {
		f, err := c.Do(ctx, "sync", conv, proto.Sync{After: uint64(len(events))})
		if err != nil || f.T != "ok" {
			t.Fatalf("sync of %s: %v %s", conv, err, f.D)
		}
		var page proto.Synced
		f.Decode(&page)
		for _, raw := range page.Events {
			var e desktest.Frame
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			if e.S != uint64(len(events))+1 {
				t.Fatalf("conversation %s: event %d follows %d", conv, e.S, len(events))
			}
			events = append(events, e)
		}
		if !page.More {
			return events
		}
	}
}

// checkSender holds the stored messages of one sender against what it sent and what was acknowledged.
func checkSender(t *testing.T, s *sender, log []desktest.Frame) {
	t.Helper()
	number := map[string]int{}
	for i, id := range s.sent {
		number[id] = i
	}
	stored := map[string]desktest.Frame{}
	ids := map[string]string{}
	next := 0
	for _, f := range log {
		if bodyOf(f) == "" {
			continue
		}
		var m proto.Msg
		f.Decode(&m)
		n, own := number[m.ClientID]
		if !own {
			continue
		}
		if _, twice := stored[m.ClientID]; twice {
			t.Errorf("%s: %q is stored twice", s.name, m.Body)
		}
		for s.given[next] && n > next {
			next++
		}
		if n != next || m.Body != s.body(n) {
			t.Errorf("%s: message %d (%q) stands where number %d belongs", s.name, n, m.Body, next)
		}
		next = n + 1
		stored[m.ClientID], ids[m.ClientID] = f, m.ID
	}
	for n := range s.given {
		if _, ok := stored[s.sent[n]]; ok {
			t.Errorf("%s: message %d was refused for good and is stored", s.name, n)
		}
	}
	if len(stored)+len(s.given) != len(s.sent) {
		t.Errorf("%s: %d messages stored, %d sent", s.name, len(stored), len(s.sent))
	}
	for _, a := range s.acks() {
		if f, ok := stored[a.ClientID]; !ok || f.S != a.S || ids[a.ClientID] != a.ID {
			t.Errorf("%s: %q was acknowledged as %s at %d and is stored as %q at %d", s.name, a.Body, a.ID, a.S, ids[a.ClientID], f.S)
		}
	}
}

// checkDrops fails for a message that the server has refused for good. An agent who could not come back within the grace may be refused, because he has no chat any more.
func checkDrops(t *testing.T, s *sender) {
	t.Helper()
	for _, d := range s.client.Drops() {
		n := slices.Index(s.sent, d.ClientID)
		switch {
		case n < 0 || s.given[n]:
		case strings.HasPrefix(s.name, "agent") && (d.Err.Code == proto.CodeConflict || d.Err.Code == proto.CodeForbidden):
			t.Logf("%s: message %d was refused at attempt %d: %s", s.name, n, d.Attempts, d.Err.Text)
			s.given[n] = true
		default:
			t.Fatalf("%s: message %d was refused for good at attempt %d: %+v", s.name, n, d.Attempts, d.Err)
		}
	}
}

// checkView compares what the sender's own client shows with the log: it saw every event, once and in order. An agent sees a conversation
// from the moment it took it. What happened after the log was read is left out, such as the router's assignment of a chat that still waits.
func checkView(ctx context.Context, t *testing.T, s *sender, log []desktest.Frame) {
	t.Helper()
	last := log[len(log)-1].S
	if err := s.client.Complete(ctx, s.conv, last); err != nil {
		t.Errorf("%s: %v", s.name, err)
		return
	}
	view := slices.DeleteFunc(s.client.View(s.conv), func(f desktest.Frame) bool { return f.S > last })
	if len(view) == 0 || len(view) > len(log) {
		t.Errorf("%s: shows %d events of %d", s.name, len(view), len(log))
		return
	}
	for i, f := range log[len(log)-len(view):] {
		if view[i].S != f.S || string(view[i].D) != string(f.D) {
			t.Errorf("%s: shows %d %s, stored is %d %s", s.name, view[i].S, view[i].D, f.S, f.D)
			return
		}
	}
}
