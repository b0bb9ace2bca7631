package hooks

import (
	"context"
	"net/http"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// turns lets a server work when its test says so, as a lease does.
type turns struct {
	begin chan context.Context
	ended chan struct{}
}

func (h *turns) hold(ctx context.Context, work func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case turn := <-h.begin:
			work(turn)
			h.ended <- struct{}{}
		}
	}
}

// TestOnlyWhileItsTurn: a server sends only while it is its turn. Afterwards another one, here the same, goes on behind what was sent.
func TestOnlyWhileItsTurn(t *testing.T) {
	r := newRig(t)
	h := &turns{begin: make(chan context.Context), ended: make(chan struct{}, 1)}
	r.o.Hold = h.hold
	var work []string
	r.answers(func(s sent) (int, error) {
		work = append(work, s.id)
		return http.StatusOK, nil
	})
	r.start()
	w := r.hook("good.example")
	conv := r.open()
	for range 3 {
		for range 4 {
			r.say(conv)
		}
		before := len(r.to("good.example"))
		turn, end := context.WithCancel(t.Context())
		h.begin <- turn
		r.eventually("everything is sent", func() bool { return r.numbers(w).Behind == 0 && len(r.to("good.example")) >= before+4 })
		end()
		testkit.Receive(t, "the end of the turn", h.ended)
		if n := len(r.hooks.Stats()); n != 0 {
			t.Errorf("%d webhooks are still told", n)
		}
	}
	r.say(conv)
	if n := len(r.to("good.example")); n != 13 {
		t.Errorf("%d events were sent, want 13", n)
	}
	r.inOrder("good.example", 13)
	r.mu.Lock()
	defer r.mu.Unlock()
	once := make(map[string]bool)
	for _, id := range work {
		if once[id] {
			t.Errorf("event %s was sent twice", id)
		}
		once[id] = true
	}
}
