package deskload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/websocket"
)

// TestLoss: the loss of a server is over when each of its clients is welcomed again, once, and when in each conversation of such
// a client a message has reached the agent and its answer the customer. Clients of another server, and what they say, do not count.
func TestLoss(t *testing.T) {
	r := newRoom(t)
	other := r.f.newClient(nil)
	r.f.customers, r.f.agents = []*Client{r.customer, other}, []*Client{r.agent}
	for c, at := range map[*Client]string{r.customer: "one", r.agent: "two", other: "two"} {
		c.at, c.conn = at, new(websocket.Conn)
	}
	r.customer.conv, other.conv = "c", "d"
	r.f.owner["c"], r.f.owner["d"] = r.agent, r.agent
	l := r.f.Lose("one")
	if l.Customers != 1 || l.Agents != 0 {
		t.Fatalf("%d customers, %d agents", l.Customers, l.Agents)
	}
	if err := l.Talk(3); err != nil {
		t.Fatal(err)
	}
	left := func(want string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		back, round, err := l.Over(ctx)
		if err == nil && want == "" && len(back) == 1 && len(round) == 1 && back[0] == 3*time.Second && round[0] == 5*time.Second {
			return
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v, %v, %v, want %q", back, round, err, want)
		}
	}
	left("1 of 1 are not welcomed anywhere")
	other.regained(l.from)
	left("1 of 1 are not welcomed anywhere")
	r.customer.regained(l.from.Add(3 * time.Second))
	r.customer.regained(l.from.Add(4 * time.Second)) // lost again, and back: of another loss
	left("1 of 1 conversations do not go on")
	if len(other.stream("d").out) != 0 {
		t.Error("a conversation whose clients are all at the other server was to say something")
	}
	ask := r.customer.stream("c").out[0]
	r.show(ask, 1, r.customer)
	left("1 of 1 conversations do not go on")
	r.show(ask, 1, r.agent)
	left("1 of 1 conversations do not go on")
	answer := r.agent.stream("c").out[0]
	if answer.body != "xxx" {
		t.Errorf("answered %q", answer.body)
	}
	r.showAt(answer, 2, l.from.Add(5*time.Second), r.agent, r.customer)
	left("")
}

// TestLossOfAnAgent: the conversations of an agent are those of its server, too.
func TestLossOfAnAgent(t *testing.T) {
	r := newRoom(t)
	r.f.customers, r.f.agents = []*Client{r.customer}, []*Client{r.agent}
	r.agent.at, r.agent.conn = "two", new(websocket.Conn)
	r.customer.conv, r.f.owner["c"] = "c", r.agent
	l := r.f.Lose("two")
	if err := l.Talk(1); err != nil || l.Customers != 0 || l.Agents != 1 || l.chats != 1 {
		t.Errorf("%d customers, %d agents, %d conversations, %v", l.Customers, l.Agents, l.chats, err)
	}
}

// TestAnywhere: who meets a server that is gone goes to another one; any other answer is the answer.
func TestAnywhere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f := New("demo", gone, "here")
	defer f.Close()
	dial := func(base string) error {
		if base == "here" {
			return nil
		}
		_, err := net.Dial("tcp", base)
		return fmt.Errorf("dialing: %w", err)
	}
	met := false
	for range 100 {
		if err := f.anywhere(func(base string) error { met = met || base == gone; return dial(base) }); err != nil {
			t.Fatal(err)
		}
	}
	if !met {
		t.Error("nobody went to the server that is gone")
	}
	if err := New("demo", gone, gone).anywhere(dial); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("with no server: %v", err)
	}
	asked, full := 0, errors.New("full")
	if err := f.anywhere(func(string) error { asked++; return full }); err != full || asked != 1 {
		t.Errorf("%v after %d servers", err, asked)
	}
}

// TestOutboxAfterRefusal: a message that is refused for good is not waited for, and the next one of its conversation goes out.
func TestOutboxAfterRefusal(t *testing.T) {
	r := newRoom(t)
	a, b := r.say(r.customer), r.say(r.customer)
	a.measured = true
	r.customer.flight["1"] = a
	send, err := r.customer.refused(nil, &frame{T: "err", RE: "1", D: []byte(`{"code":"conflict"}`)})
	if err != nil || len(send) != 1 || len(r.customer.flight) != 1 || r.f.unacked != 1 || r.f.arrived != 1 || r.f.Faults().Refused != 1 {
		t.Fatalf("%d to send, %v, %d under way, %d not acknowledged, %+v", len(send), err, len(r.customer.flight), r.f.unacked, r.f.Faults())
	}
	for _, next := range r.customer.flight {
		if next != b {
			t.Errorf("next %+v", next)
		}
	}
}

// TestTakeWhoseAnswerWasLate: an agent who takes a conversation again, because the first answer said that the server is late, finds that it has it.
func TestTakeWhoseAnswerWasLate(t *testing.T) {
	for owner, refused := range map[string]int64{"me": 0, "another": 1} {
		r := newRoom(t)
		r.agent.me, r.agent.taking["1"], r.f.taking = "me", "conv", 1
		answer := fmt.Sprintf(`{"code":"conflict","head":{"id":"conv","owner":{"id":%q}}}`, owner)
		if _, err := r.agent.refused(nil, &frame{T: "err", RE: "1", D: []byte(answer)}); err != nil || r.f.taking != 0 || r.f.Faults().Refused != refused {
			t.Errorf("taken by %s: %v, %d under way, %+v", owner, err, r.f.taking, r.f.Faults())
		}
	}
}
