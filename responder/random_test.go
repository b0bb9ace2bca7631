package responder_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/responder"
)

// TestOrderingsAtRandom drives all four orderings with random requests, cancellations, timeouts, panics, full pools and
// disconnects and checks what every client was told: each request that is answered is answered once, with an answer that
// it can have, in the order that the ordering promises; and in the end nothing runs and everything was released.
func TestOrderingsAtRandom(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for o := range responder.NoPipelining + 1 {
		for i := range rounds {
			seed := uint64(time.Now().UnixNano()) + uint64(i)
			t.Run(o.String(), func(t *testing.T) {
				t.Parallel()
				t.Logf("seed %d", seed)
				orderingsAtRandom(t, o, rand.New(rand.NewPCG(seed, uint64(o))))
			})
		}
	}
}

func orderingsAtRandom(t *testing.T, o responder.Ordering, rnd *rand.Rand) {
	pool := newPool(t, 1+rnd.IntN(4), 1+rnd.IntN(12))
	d := newDesk(t, pool, func(r *responder.Options[*ask]) {
		r.Ordering, r.InFlight = o, 1+rnd.IntN(12)
		r.Timeout = func(a *ask) time.Duration {
			if a.id%7 == 0 {
				return time.Duration(a.id%5) * time.Millisecond
			}
			return 0
		}
	})
	srv := &eddy.Server{Loops: 2, Init: d.init, Logger: quiet()}
	addr := enginetest.Serve(t, srv)
	var clients sync.WaitGroup
	for range 8 {
		script := newScript(rnd)
		clients.Go(func() { script.play(t, addr, o) })
	}
	clients.Wait()
	d.settle()
	if _, err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if srv.Stats().Active != 0 {
		t.Error("a connection is left")
	}
}

// script is what one client does.
type script struct {
	requests []string
	owed     []uint64 // ids that are answered, in order
	verbs    map[uint64]string
	leaveAt  int // answers after which it goes away, -1 for never
	pauses   []time.Duration
}

func newScript(rnd *rand.Rand) *script {
	verbs := []string{"ok", "sleep", "sleep", "sleep", "fail", "panic", "exit", "local", "oneway", "cancel", "big"}
	s := &script{verbs: make(map[uint64]string), leaveAt: -1}
	for id := uint64(1); id <= 60; id++ {
		verb := verbs[rnd.IntN(len(verbs))]
		arg := rnd.IntN(3000)
		if verb == "cancel" {
			s.requests = append(s.requests, fmt.Sprintf("%d cancel", max(1, id-uint64(rnd.IntN(4)))))
		} else {
			s.requests = append(s.requests, fmt.Sprintf("%d %s %d", id, verb, arg))
			s.verbs[id] = verb
			if verb != "oneway" {
				s.owed = append(s.owed, id)
			}
		}
		s.pauses = append(s.pauses, time.Duration(rnd.IntN(4))*time.Duration(rnd.IntN(300))*time.Microsecond)
	}
	if rnd.IntN(3) == 0 {
		s.leaveAt = rnd.IntN(len(s.owed))
	}
	return s
}

var allowed = map[string]string{
	"ok": "ok busy cancelled late", "sleep": "ok busy cancelled late", "fail": "failed busy cancelled late", "panic": "panicked busy cancelled late",
	"exit": "failed busy cancelled late", "local": "ok late cancelled", "big": "x busy cancelled late",
}

func (s *script) play(t *testing.T, addr string, o responder.Ordering) {
	c := newClient(t, addr)
	defer c.Close()
	turn := make(chan struct{}, 1) // of a client that does not pipeline
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i, r := range s.requests {
			if time.Sleep(s.pauses[i]); o == responder.NoPipelining && !strings.Contains(r, "cancel") {
				turn <- struct{}{}
			}
			if _, err := io.WriteString(c, r+"\n"); err != nil {
				return
			}
			if o == responder.NoPipelining && strings.Contains(r, "oneway") {
				<-turn
			}
		}
	}()
	var order []uint64
	for len(order) < len(s.owed) {
		if len(order) == s.leaveAt {
			c.Close()
			for len(turn) > 0 {
				<-turn
			}
			return
		}
		line, err := c.r.ReadString('\n')
		if err != nil {
			t.Errorf("after %d of %d answers: %v", len(order), len(s.owed), err)
			return
		}
		number, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		id, _ := strconv.ParseUint(number, 10, 64)
		if what = what[:min(len(what), 9)]; strings.HasPrefix(what, "x") || what == "" {
			what = "x"
		}
		if !slices.Contains(strings.Fields(allowed[s.verbs[id]]), what) {
			t.Errorf("request %d %s is answered %q", id, s.verbs[id], line)
		}
		order = append(order, id)
		if o == responder.NoPipelining {
			<-turn
		}
	}
	if o == responder.ByCompletion {
		slices.Sort(order)
	}
	if !slices.Equal(order, s.owed) {
		t.Errorf("%v: answers %v, want %v", o, order, s.owed)
	}
	<-written
	c.say("999 local") // nothing else is under way that could be answered
	c.expect("999 ok")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Error(err)
	}
	c.expectEnd()
}
