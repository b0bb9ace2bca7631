package executor

import (
	"context"
	"testing"
	"time"

	"github.com/go-eddy/eddy/limit"
)

// fleeting is a request that its client gives up just as a worker takes it.
type fleeting struct {
	*request
	asked int
}

func (f *fleeting) Due() time.Time {
	if f.asked++; f.asked == 1 {
		return time.Time{}
	}
	return time.Unix(0, 0)
}

// TestGivenUpJustNow: a request that is over when a worker takes it runs nothing. It is no wasted work.
func TestGivenUpJustNow(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Adaptive: &Adaptive{}})
	var e ends
	for n := range 100 {
		submit(t, p, &fleeting{request: e.request(n, limit.Critical)})
	}
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Wasted != 0 || len(e.ran) != 100 {
		t.Errorf("%d wasted of %d", s.Wasted, len(e.ran))
	}
}
