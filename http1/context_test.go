package http1

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"runtime"
	"testing"
)

// TestRequestContextEnds: the context of a request ends with its handler, whether somebody has asked for it before or only
// afterwards, and with it every context that was made of it, without a goroutine for any.
func TestRequestContextEnds(t *testing.T) {
	type key struct{}
	held := make(chan context.Context, 2)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unused" {
			held <- r.Context()
			return
		}
		if err := r.Context().Err(); err != nil {
			t.Errorf("before the end: %v", err)
		}
		child, cancel := context.WithCancel(context.WithValue(r.Context(), key{}, 1))
		t.Cleanup(cancel)
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; bytes.Contains(stacks, []byte("propagateCancel.func")) {
			t.Error("a goroutine waits for the end of the request's context")
		}
		if child.Err() != nil {
			t.Error("ended before the handler")
		}
		held <- child
	})
	for _, path := range []string{"/unused", "/used"} {
		resp, err := s.client().Get(s.url(path))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		ctx := <-held
		<-ctx.Done()
		if err := ctx.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: after the handler: %v", path, err)
		}
		late, cancel := context.WithCancel(ctx)
		<-late.Done()
		cancel()
		if late.Err() == nil || context.Cause(late) == nil {
			t.Errorf("%s: a context made afterwards: %v, cause %v", path, late.Err(), context.Cause(late))
		}
	}
}
