package rpc

import (
	"context"
	"sync"
	"testing"
)

// TestLargeAnswers: callers of one connection get all of their answers, though those in flight come to more than the
// connection's queue takes by default.
func TestLargeAnswers(t *testing.T) {
	const callers, calls, size = 16, 6, 1000 << 10
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, testKey.String(),
		Raw("Big", func(context.Context, []byte) ([]byte, error) { return make([]byte, size), nil })))
	cl := client(t, ClientOptions{}, s.Addr("port0").String())
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				if body, err := Invoke[[]byte](t.Context(), cl, testKey, "Big", text("")); err != nil || len(*body) != size {
					t.Errorf("an answer of %d bytes: %v", size, err)
					return
				}
			}
		})
	}
	all.Wait()
}
