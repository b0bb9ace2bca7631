package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// odd serves calls by net/http, so that a test can answer what no server of gRPC does.
func odd(t *testing.T, h http.HandlerFunc) *GRPCClient {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Workers: 4, Queue: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pool.Shutdown(context.Background()) })
	f := http2.NewHandler(h, pool, http2.Options{})
	addr := enginetest.Serve(t, &eddy.Server{Loops: 1, Init: f.Init})
	cl, err := NewGRPCClient(GRPCOptions{Targets: []string{"http://" + addr}, Timeout: testkit.Patience, MaxPayload: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// TestGRPCUnaryAnswers: what a call with one response makes of the answers of odd servers.
func TestGRPCUnaryAnswers(t *testing.T) {
	msg := func(text string) string { return string(grpcMessage(0, text)) }
	for what, c := range map[string]struct {
		status int
		kind   string
		body   string
		end    string // grpc-status
		code   Code
		text   string
	}{
		"one message":              {200, "application/grpc", msg("one"), "0", CodeOK, ""},
		"an empty one":             {200, "application/grpc+x", msg(""), "0", CodeOK, ""},
		"two":                      {200, "application/grpc", msg("one") + msg("two"), "0", CodeUnimplemented, "more than one message"},
		"none":                     {200, "application/grpc", "", "0", CodeUnimplemented, "no message, and no error"},
		"an error":                 {200, "application/grpc", "", "5", CodeNotFound, ""},
		"a message and an error":   {200, "application/grpc", msg("one"), "5", CodeNotFound, ""},
		"no status":                {200, "application/grpc", msg("one"), "", CodeInternal, "grpc-status"},
		"half a prefix":            {200, "application/grpc", msg("one")[:3], "0", CodeInternal, "inside a message"},
		"half a message":           {200, "application/grpc", msg("one")[:7], "0", CodeInternal, "inside a message"},
		"a long message":           {200, "application/grpc", msg(strings.Repeat("x", 101)), "0", CodeResourceExhausted, "a message of 101 bytes, limit 100"},
		"the prefix of a long one": {200, "application/grpc", "\x00\x10\x00\x00\x00", "0", CodeResourceExhausted, "a message of 268435456 bytes, limit 100"},
		"odd flags":                {200, "application/grpc", "\x07\x00\x00\x00\x00", "0", CodeUnavailable, "flags 0x7"},
		"compressed by what":       {200, "application/grpc", string(grpcMessage(1, "one")), "0", CodeInternal, `the encoding ""`},
		"a page":                   {503, "text/html", strings.Repeat("busy", 1000), "", CodeUnavailable, "HTTP status 503"},
		"another kind":             {200, "text/html", msg("one"), "0", CodeUnknown, `content type "text/html"`},
	} {
		cl := odd(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", c.kind)
			w.Header().Set("X-Early", "1")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
			if c.end != "" {
				w.Header().Set(http.TrailerPrefix+"Grpc-Status", c.end)
			}
			w.Header().Set(http.TrailerPrefix+"X-Late", "2")
		})
		for range 2 { // by the same memory, if the first call has succeeded
			var header, trailer Metadata
			got, err := Invoke[[]byte](testkit.Context(t), cl, Key{Interface: "test"}, "M", []byte("x"), CallHeader(&header), CallTrailer(&trailer))
			if CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.text) || err == nil && msg(string(*got)) != c.body {
				t.Errorf("%s: %v", what, err)
			}
			if early, _ := header.Get("x-early"); early != "1" {
				t.Errorf("%s: header %v", what, header)
			}
			if late, _ := trailer.Get("x-late"); late != "2" && (c.code == CodeOK || c.end != "" && c.text == "") {
				t.Errorf("%s: trailer %v", what, trailer)
			}
		}
	}
}

// TestGRPCUnaryMemory: calls that use the memory of others, which have ended in every way, get what is theirs.
func TestGRPCUnaryMemory(t *testing.T) {
	hold := make(chan struct{})
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, "/test:",
		Raw("Echo", func(_ context.Context, b []byte) ([]byte, error) { return b, nil }),
		Raw("Fail", func(_ context.Context, b []byte) ([]byte, error) { return nil, Statusf(CodeAborted, "%s", b) }),
		Raw("Hold", func(ctx context.Context, _ []byte) ([]byte, error) {
			select {
			case <-ctx.Done():
			case <-hold:
			}
			return nil, nil
		})))
	defer close(hold)
	cl, key := newGRPC(t, s, nil), Key{Interface: "test"}
	var wg sync.WaitGroup
	var ends [4]atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			var before, mine []byte
			var kept *[]byte
			for n := range 60 {
				mine = bytes.Repeat([]byte{byte('a' + i)}, 1+(n*n*7919)%40000)
				ctx, cancel := context.WithCancel(testkit.Context(t))
				var err error
				switch n % 4 {
				case 0, 1:
					var got *[]byte
					if got, err = Invoke[[]byte](ctx, cl, key, "Echo", mine); err != nil || !bytes.Equal(*got, mine) || kept != nil && !bytes.Equal(*kept, before) {
						t.Errorf("%d: %v", n, err)
					}
					before, kept = mine, got
				case 2:
					if n%8 == 2 {
						_, err = Invoke[[]byte](ctx, cl, key, "Fail", mine[:1])
						if s, ok := errors.AsType[*Status](err); !ok || s.Code != CodeAborted || s.Message != string(mine[:1]) {
							t.Errorf("%d: %v", n, err)
						}
						break
					}
					if _, err = Invoke[[]byte](ctx, cl, key, "Hold", mine, CallTimeout(time.Millisecond)); !errors.Is(err, ErrDeadline) {
						t.Errorf("%d: %v", n, err)
					}
				case 3:
					go cancel()
					if _, err = Invoke[[]byte](ctx, cl, key, "Hold", mine); !errors.Is(err, ErrCanceled) {
						t.Errorf("%d: %v", n, err)
					}
				}
				ends[n%4].Add(1)
				cancel()
			}
		})
	}
	wg.Wait()
	for i := range ends {
		if n := ends[i].Load(); n != 8*15 {
			t.Errorf("%d ends of kind %d", n, i)
		}
	}
	testkit.Eventually(t, "no stream", func() bool { return cl.o.Transport.Stats().Streams == 0 })
}

// TestGRPCUnaryAtOnce: a call does not wait for the end of a response that is of no use.
func TestGRPCUnaryAtOnce(t *testing.T) {
	for what, c := range map[string]struct {
		kind, body string
		code       Code
	}{
		"a long message": {"application/grpc", "\x00\x10\x00\x00\x00", CodeResourceExhausted},
		"two messages":   {"application/grpc", string(grpcMessage(0, "1")) + string(grpcMessage(0, "2")), CodeUnimplemented},
		"a page":         {"text/html", "<html>", CodeUnknown},
	} {
		ended := make(chan error, 1)
		cl := odd(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			_, _ = io.WriteString(w, c.body)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			ended <- r.Context().Err()
		})
		if _, err := Invoke[[]byte](testkit.Context(t), cl, Key{Interface: "test"}, "M", []byte("x")); CodeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
		if err := testkit.Receive(t, "the server's request to end", ended); err == nil {
			t.Errorf("%s: the server was not told", what)
		}
	}
}

// TestGRPCUnaryKnown: memory that a timer or a cancelling context may still touch does not serve another call.
func TestGRPCUnaryKnown(t *testing.T) {
	cl := new(GRPCClient)
	u := cl.newUnary()
	u.known = true
	cl.keep(u)
	for range 100 {
		if cl.newUnary() == u {
			t.Fatal("the memory serves again")
		}
	}
}
