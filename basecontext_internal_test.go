package eddy

import (
	"context"
	"errors"
	"testing"

	"github.com/go-eddy/eddy/internal/meter"
)

// TestEndOfBaseContextComesInPieces: the end of BaseContext reaches every connection of its server, and no task ends the
// contexts of more than a batch of them. Those of another server on the loop live on.
func TestEndOfBaseContextComesInPieces(t *testing.T) {
	base, stop := context.WithCancel(context.Background())
	defer stop()
	st, l := newStage(t, &Server{BaseContext: base, Init: func(p *Pipeline) error { return p.Add("cut", &cut{}) }})
	var own, others []*requestContext
	other := *st.set
	other.owner = new(endpoint)
	for i := range 2*contextBatch + 1 {
		c := st.connect(l).conn
		if i%100 == 0 {
			c.set = &other
			others = append(others, c.newContext(0))
			continue
		}
		own = append(own, c.newContext(0))
	}
	stop()
	before := l.Counters[meter.Tasks]
	l.endContexts(&st.srv.endpoint, 0)
	for range 5 {
		l.Iterate()
	}
	if n := l.Counters[meter.Tasks] - before; n != 3 {
		t.Errorf("%d tasks, want 3", n)
	}
	for i, r := range own {
		if !errors.Is(r.Err(), context.Canceled) {
			t.Fatalf("context %d of %d: %v", i, len(own), r.Err())
		}
	}
	for _, r := range others {
		if r.Err() != nil {
			t.Error("a context of another server has ended")
		}
	}
}
