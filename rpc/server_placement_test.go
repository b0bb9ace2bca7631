package rpc

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/goid"
)

// placed is a body that notes where it is decoded and says where it is encoded.
type placed struct {
	decoded, ran uint64 // goroutines
	onLoop       bool
}

func (p *placed) UnmarshalJSON([]byte) error {
	p.decoded, p.onLoop = goid.Current(), eddy.OnLoop()
	return nil
}

func (p placed) MarshalJSON() ([]byte, error) {
	same := p.decoded == p.ran && p.ran == goid.Current()
	return fmt.Appendf(nil, `"one goroutine %v, loop %v"`, same, p.onLoop && eddy.OnLoop()), nil
}

// TestWhereBodiesAreCoded: requests are decoded and responses encoded where the method runs: on a worker of the service's pool,
// and with DispatchDirect on the loop.
func TestWhereBodiesAreCoded(t *testing.T) {
	for d := range dispatchers {
		for _, isolation := range []Isolation{Shared, PerService} {
			pool := userPool(t, "service", PoolOptions{Threads: 2})
			s := newServer(t, ServerOptions{Isolation: isolation, Ports: []PortOptions{{Dispatcher: d}}})
			svc := newService(t, rawKey, Unary("Where", func(_ context.Context, req *placed) (*placed, error) {
				if own := isolation == PerService && d != DispatchDirect; pool.OnWorker() != own {
					return nil, fmt.Errorf("on the service's pool: %v", !own)
				}
				req.ran = goid.Current()
				return req, nil
			}))
			if err := s.Register(svc, WithPool(pool)); err != nil {
				t.Fatal(err)
			}
			serve(t, s)
			c := dialRaw(t, s.Addr("port0"))
			c.json(1, rawKey, "Where", `0`)
			if got, want := c.expect(1, ok), fmt.Sprintf(`"one goroutine true, loop %v"`, d == DispatchDirect); got != want {
				t.Errorf("%v, %v: %s, want %s", d, isolation, got, want)
			}
		}
	}
}
