package poll

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/hub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is the session behind a transport.
type fake struct {
	mu       sync.Mutex
	received []string
	closed   int
}

func (f *fake) Receive(data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = append(f.received, string(data))
}

func (f *fake) Closed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
}

func (f *fake) ends() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// answered collects the answers to one poll.
type answered struct {
	mu  sync.Mutex
	all []reply
}

type reply struct {
	Last   uint64            `json:"last"`
	Events []json.RawMessage `json:"events"`
	Close  *End              `json:"close"`
}

func (a *answered) take(body []byte) {
	var r reply
	if err := json.Unmarshal(body, &r); err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, r)
}

func (a *answered) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, r := range a.all {
		fmt.Fprintf(&b, "%d:%s", r.Last, r.Events)
		if r.Close != nil {
			fmt.Fprintf(&b, "!%d %s", r.Close.Code, r.Close.Reason)
		}
		b.WriteByte(';')
	}
	return b.String()
}

// opened is a session with what is behind it.
func opened(t *testing.T, table *Table) *Session {
	t.Helper()
	s, err := table.Open(hub.Peer{}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fakes(most int) (*Table, *fake) {
	f := new(fake)
	return NewTable(most, func(hub.Conn, hub.Peer) Receiver { return f }), f
}

// polls asks for events and returns what collects the answer.
func polls(t *testing.T, s *Session, after uint64) *answered {
	t.Helper()
	a := new(answered)
	if err := s.Poll(after, a.take); err != nil {
		t.Fatal(err)
	}
	return a
}

func send(t *testing.T, s *Session, frames ...string) {
	t.Helper()
	for _, f := range frames {
		if err := s.Send([]byte(f)); err != nil {
			t.Fatal(err)
		}
	}
}

// is compares the answers, when everything that is under way has come.
func is(t *testing.T, a *answered, want string) {
	t.Helper()
	synctest.Wait()
	if got := a.String(); got != want {
		t.Fatalf("answered %q, want %q", got, want)
	}
}

func TestEventsComeInOrderAndUntilAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := fakes(0)
		defer table.Close()
		s := opened(t, table)
		a := polls(t, s, 0)
		send(t, s, `"a"`, `"b"`)
		is(t, a, "")
		time.Sleep(gather)
		is(t, a, `2:["a" "b"];`)
		if n := s.Queued(); n != 6 {
			t.Errorf("%d bytes are queued before the acknowledgement", n)
		}
		is(t, polls(t, s, 0), `2:["a" "b"];`) // the answer was lost
		send(t, s, `"c"`)
		is(t, polls(t, s, 0), `3:["a" "b" "c"];`)
		is(t, polls(t, s, 2), `3:["c"];`)
		last := polls(t, s, 3)
		if n := s.Queued(); n != 0 {
			t.Errorf("%d bytes are queued behind the acknowledgement", n)
		}
		for _, wrong := range []uint64{2, 4} {
			if err := s.Poll(wrong, func([]byte) { t.Error("answered") }); err == nil {
				t.Errorf("after %d was taken", wrong)
			}
		}
		is(t, last, "")
		time.Sleep(Wait - time.Nanosecond)
		is(t, last, "")
		time.Sleep(time.Nanosecond)
		is(t, last, `3:[];`)
	})
}

func TestNewPollTakesTheOldOnesPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := fakes(0)
		defer table.Close()
		s := opened(t, table)
		first := polls(t, s, 0)
		second := polls(t, s, 0)
		is(t, first, `0:[];`)
		send(t, s, `1`)
		time.Sleep(gather)
		is(t, second, `1:[1];`)
		is(t, first, `0:[];`)
	})
}

// A client whose polls stop has gone when its last one began Silence ago, whether or not that was answered.
func TestSilentClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, f := fakes(0)
		left := 0
		s, err := table.Open(hub.Peer{}, func() { left++ })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(Silence - time.Second)
		a := polls(t, s, 0)
		time.Sleep(Silence - time.Nanosecond)
		is(t, a, `0:[];`)
		if f.ends() != 0 || table.Find(s.ID) != s {
			t.Fatal("the session has ended too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if f.ends() != 1 || table.Find(s.ID) != nil || left != 1 {
			t.Fatalf("%d ends, %d places given back, found %v", f.ends(), left, table.Find(s.ID))
		}
		if s.Send([]byte(`1`)) == nil {
			t.Error("a session that is over takes events")
		}
		table.Close()
		if f.ends() != 1 || left != 1 {
			t.Errorf("%d ends, %d places given back", f.ends(), left)
		}
	})
}

// The client learns how its session has ended, behind all events, and again if that answer is lost.
func TestEndComesBehindTheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, f := fakes(0)
		s := opened(t, table)
		large := `"` + strings.Repeat("x", batchSize) + `"`
		send(t, s, `1`, large, `2`)
		s.Close(4008, "slow consumer")
		s.Close(4000, "again")
		if f.ends() != 1 {
			t.Fatalf("%d ends", f.ends())
		}
		is(t, polls(t, s, 0), `1:[1];`) // an answer is bounded, and one event is always in it
		is(t, polls(t, s, 1), `2:[`+large+`];`)
		is(t, polls(t, s, 2), `3:[2]!4008 slow consumer;`)
		is(t, polls(t, s, 3), `3:[]!4008 slow consumer;`)
		time.Sleep(linger)
		synctest.Wait()
		if table.Find(s.ID) != nil {
			t.Error("an ended session stays")
		}
		s = opened(t, table)
		a := polls(t, s, 0)
		s.Close(4000, "draining")
		is(t, a, `0:[]!4000 draining;`)
		s = opened(t, table)
		a = polls(t, s, 0)
		s.Leave()
		is(t, a, `0:[]!1000 ;`)
		s = opened(t, table)
		a = polls(t, s, 0)
		table.Close()
		is(t, a, `0:[]!1000 ;`)
		if n := table.Len(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		if _, err := table.Open(hub.Peer{}, func() {}); !errors.Is(err, ErrOver) {
			t.Errorf("Open says %v", err)
		}
	})
}

// A server that ends waits until every client that is between two polls has heard of the end, and two seconds for one that does not ask.
func TestDrainWaitsForThePollThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := fakes(0)
		large := `"` + strings.Repeat("x", batchSize) + `"`
		late, gone, lives := opened(t, table), opened(t, table), opened(t, table)
		send(t, late, large, `2`)
		late.Close(4000, "draining")
		gone.Close(4000, "draining")
		polls(t, lives, 0) // no end to be told
		drained := make(chan time.Duration, 1)
		drain := func() {
			from := time.Now()
			table.Drain(t.Context())
			drained <- time.Since(from)
		}
		go drain()
		time.Sleep(100 * time.Millisecond)
		is(t, polls(t, late, 0), `1:[`+large+`];`) // the end comes behind all events
		time.Sleep(100 * time.Millisecond)
		is(t, polls(t, late, 1), `2:[2]!4000 draining;`)
		gone.Leave()
		if took := <-drained; took != 200*time.Millisecond {
			t.Errorf("drained in %v", took)
		}
		silent := opened(t, table)
		silent.Close(4000, "draining")
		go drain()
		if took := <-drained; took != farewell {
			t.Errorf("drained in %v with a client that asks no more", took)
		}
		table.Close()
	})
}

func TestRequestsWithCommandsRunOnceAndInOrder(t *testing.T) {
	table, f := fakes(0)
	defer table.Close()
	s := opened(t, table)
	run := func(n uint64, next uint64, ok bool, commands ...string) {
		t.Helper()
		var list [][]byte
		for _, c := range commands {
			list = append(list, []byte(c))
		}
		if got, done := s.Commands(n, list); got != next || done != ok {
			t.Errorf("request %d: next %d, %v", n, got, done)
		}
	}
	run(1, 2, true, "a", "b")
	run(1, 2, true, "a", "b")
	run(3, 2, false, "d")
	run(0, 2, true, "z")
	run(2, 3, true, "c")
	s.Close(4029, "too fast")
	run(3, 4, true, "d")
	if want := []string{"a", "b", "c"}; !reflect.DeepEqual(f.received, want) {
		t.Errorf("received %q, want %q", f.received, want)
	}
}

// The hub may end a session before connect has returned, as it does while it drains.
func TestSessionThatEndsAsItBegins(t *testing.T) {
	f := new(fake)
	table := NewTable(1, func(c hub.Conn, _ hub.Peer) Receiver {
		c.Close(4000, "draining")
		return f
	})
	defer table.Close()
	s := opened(t, table)
	if f.ends() != 1 || s.Over() == nil || s.Over().Code != 4000 {
		t.Errorf("%d ends, over %v", f.ends(), s.Over())
	}
	if _, err := table.Open(hub.Peer{}, func() {}); !errors.Is(err, ErrFull) {
		t.Errorf("Open says %v", err)
	}
}

func TestSplit(t *testing.T) {
	for body, want := range map[string][]string{
		`{"t":"ping"}`:             {`{"t":"ping"}`},
		" \n[{\"a\": 1} , [2],3]":  {`{"a": 1}`, `[2]`, `3`},
		`[]`:                       {},
		``:                         {``},
		`no JSON`:                  {`no JSON`},
		`[{"a":1}`:                 nil,
		`[{"a":1}] and more of it`: nil,
	} {
		got, err := Split([]byte(body))
		if (err != nil) != (want == nil) || len(got) != len(want) {
			t.Errorf("%q: %q, %v", body, got, err)
			continue
		}
		for i := range want {
			if string(got[i]) != want[i] {
				t.Errorf("%q: %q", body, got)
			}
		}
	}
}
