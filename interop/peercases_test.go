package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
)

// peerClient returns a client of ours for the server at addr, with TLS if there is a certificate.
func peerClient(t *testing.T, addr string, id *identity, o rpc.GRPCOptions) *rpc.GRPCClient {
	t.Helper()
	o.Targets, o.Timeout = []string{"http://" + addr}, testkit.Patience
	if id != nil {
		o.Targets, o.Transport = []string{"https://" + addr}, transport(t, *id)
	}
	cl, err := rpc.NewGRPCClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
	})
	return cl
}

// call makes a unary call of the service.
func call(ctx context.Context, cl *rpc.GRPCClient, method string, message []byte, opts ...rpc.CallOption) ([]byte, error) {
	got, err := rpc.Invoke[[]byte](ctx, cl, peerService, method, message, opts...)
	if err != nil {
		return nil, err
	}
	return *got, nil
}

// stream opens a call of the service that streams.
func stream(t *testing.T, cl *rpc.GRPCClient, method string) *rpc.BidiStreamCall[[]byte, []byte] {
	t.Helper()
	s, err := rpc.OpenBidiStream[[]byte, []byte](testkit.Context(t), cl, peerService, method)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// fails fails the test if the code of err is another.
func fails(t *testing.T, code rpc.Code, err error) {
	t.Helper()
	if rpc.CodeOf(err) != code {
		t.Errorf("%v (%v), want %v", err, rpc.CodeOf(err), code)
	}
}

// peerCases are the cases of our client against the server at addr. tooLarge is the code of a request over its limit.
func peerCases(t *testing.T, addr string, id *identity, tooLarge rpc.Code) {
	cl := peerClient(t, addr, id, rpc.GRPCOptions{MaxPayload: peerLimit})
	for _, c := range []struct {
		name string
		run  func(t *testing.T, cl *rpc.GRPCClient)
	}{
		{"kinds", peerKinds}, {"metadata", peerMetadata}, {"status", peerStatus}, {"refused", peerRefused}, {"cancel", peerCancel},
		{"deadline", peerDeadline}, {"large", peerLarge}, {"unimplemented", peerUnimplemented}, {"many", peerMany},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, cl) })
	}
	t.Run("too large", func(t *testing.T) {
		_, err := call(t.Context(), peerClient(t, addr, id, rpc.GRPCOptions{MaxPayload: 2 * peerLimit}), "Echo", make([]byte, peerLimit+1))
		fails(t, tooLarge, err)
	})
}

func peerKinds(t *testing.T, cl *rpc.GRPCClient) {
	for _, text := range []string{"hello", ""} {
		if got, err := call(t.Context(), cl, "Echo", []byte(text)); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	sum, err := rpc.OpenClientStream[[]byte, []byte](testkit.Context(t), cl, peerService, "Sum")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{27182, 0, 8, 1828, 200000} {
		if err := sum.Send(new(make([]byte, n))); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := sum.CloseAndRecv(); err != nil || string(*got) != "229018" {
		t.Errorf("%v, %v", got, err)
	}
	all, err := rpc.OpenServerStream[[]byte](testkit.Context(t), cl, peerService, "Repeat", []byte("50 20000"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for got, err := range all.All() {
		if err != nil || !bytes.Equal(*got, pattern(20000)) {
			t.Fatal(count, err)
		}
		count++
	}
	if count != 50 {
		t.Errorf("%d messages", count)
	}
	chat := stream(t, cl, "Chat")
	for _, n := range []int{31415, 0, 9, 100000} {
		if err := chat.Send(new(pattern(n))); err != nil {
			t.Fatal(err)
		}
		if got, err := chat.Recv(); err != nil || !bytes.Equal(*got, pattern(n)) {
			t.Fatal(n, err)
		}
	}
	for _, s := range []*rpc.BidiStreamCall[[]byte, []byte]{chat, stream(t, cl, "Chat")} {
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Recv(); err != io.EOF {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func peerMetadata(t *testing.T, cl *rpc.GRPCClient) {
	sent := rpc.Metadata{{Key: "x-text", Value: "one"}, {Key: "x-text", Value: "two, three"}, {Key: "x-bytes-bin", Value: "\x00\xff,"}, {Key: "x-bytes-bin"}}
	var header, trailer rpc.Metadata
	if _, err := call(t.Context(), cl, "Echo", nil, rpc.CallMetadata(sent...), rpc.CallHeader(&header), rpc.CallTrailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	for _, got := range []rpc.Metadata{header, trailer} {
		for _, key := range []string{"x-text", "x-bytes-bin"} {
			if want, got := slices.Collect(sent.Values(key)), slices.Collect(got.Values(key)); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", key, got, want)
			}
		}
	}
}

func peerStatus(t *testing.T, cl *rpc.GRPCClient) {
	_, err := call(t.Context(), cl, "Fail", nil)
	s, ok := errors.AsType[*rpc.Status](err)
	if !ok || s.Code != rpc.CodeFailedPrecondition || s.Message != peerMessage || len(s.Details) != 1 || !proto.Equal(s.Details[0], peerDetail) {
		t.Errorf("%v", err)
	}
}

// peerRefused: the server answers and ends the call while its client sends.
func peerRefused(t *testing.T, cl *rpc.GRPCClient) {
	s := stream(t, cl, "Refuse")
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		err = s.Send(new(pattern(100000)))
	}
	if err != nil && err != io.EOF {
		t.Errorf("%v", err)
	}
	if got, err := s.Recv(); err != nil || !bytes.Equal(*got, pattern(100000)) {
		t.Errorf("%v", err)
	}
	_, err = s.Recv()
	fails(t, rpc.CodeInvalidArgument, err)
}

// hold makes a call that waits in the server. The error is that of the call before it has begun there.
func hold(t *testing.T, cl *rpc.GRPCClient, message string, opts ...rpc.CallOption) (*rpc.ServerStreamCall[[]byte], error) {
	t.Helper()
	s, err := rpc.OpenServerStream[[]byte](t.Context(), cl, peerService, "Hold", []byte(message), opts...)
	if err != nil {
		return nil, err
	}
	t.Cleanup(s.Close)
	first, err := s.Recv()
	if err == nil && string(*first) != "held" {
		t.Errorf("%q", *first)
	}
	return s, err
}

// ended asks the server how a call has ended that waited in it.
func ended(t *testing.T, cl *rpc.GRPCClient, want string) {
	t.Helper()
	if got, err := call(t.Context(), cl, "Ended", nil); err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

func peerCancel(t *testing.T, cl *rpc.GRPCClient) {
	s, err := hold(t, cl, "")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err = s.Recv()
	fails(t, rpc.CodeCanceled, err)
	ended(t, cl, "cancelled")
}

// peerDeadline: a call whose time is too short to begin is made again.
func peerDeadline(t *testing.T, cl *rpc.GRPCClient) {
	_, err := call(t.Context(), cl, "Sleep", nil, rpc.CallTimeout(200*time.Millisecond))
	fails(t, rpc.CodeDeadlineExceeded, err)
	begun := false
	for timeout := 200 * time.Millisecond; !begun; timeout *= 2 {
		s, err := hold(t, cl, "", rpc.CallTimeout(timeout))
		if begun = err == nil; begun {
			_, err = s.Recv()
		}
		fails(t, rpc.CodeDeadlineExceeded, err)
	}
	ended(t, cl, "deadline")
}

func peerLarge(t *testing.T, cl *rpc.GRPCClient) {
	if got, err := call(t.Context(), cl, "Echo", pattern(3<<20)); err != nil || !bytes.Equal(got, pattern(3<<20)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	s := stream(t, cl, "Repeat") // over our limit
	if err := s.Send(new(fmt.Appendf(nil, "1 %d", peerLimit+1))); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Recv()
	fails(t, rpc.CodeResourceExhausted, err)
}

func peerUnimplemented(t *testing.T, cl *rpc.GRPCClient) {
	_, err := call(t.Context(), cl, "Nothing", nil)
	fails(t, rpc.CodeUnimplemented, err)
	_, err = rpc.Invoke[[]byte](t.Context(), cl, rpc.Key{Interface: "eddy.interop.Nobody"}, "Echo", []byte(nil))
	fails(t, rpc.CodeUnimplemented, err)
}

func peerMany(t *testing.T, cl *rpc.GRPCClient) {
	var wg sync.WaitGroup
	for worker := range peerCalls {
		wg.Go(func() {
			for i := worker; i < 1000; i += peerCalls {
				text := fmt.Sprint("call ", i)
				if got, err := call(t.Context(), cl, "Echo", []byte(text)); err != nil || string(got) != text {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

// drains: the program's server shuts down while our calls are in it. They finish, and others are refused.
func (f foreignPeer) drains(t *testing.T) {
	p, addr := f.serves(t, nil)
	cl := peerClient(t, addr, nil, rpc.GRPCOptions{})
	calls := make([]*rpc.ServerStreamCall[[]byte], peerCalls)
	for i := range calls {
		var err error
		if calls[i], err = hold(t, cl, fmt.Sprint("call ", i)); err != nil {
			t.Fatal(err)
		}
	}
	p.order(t, "drain")
	testkit.Eventually(t, "a call that is refused", func() bool {
		_, err := call(t.Context(), cl, "Echo", nil)
		if err != nil && rpc.CodeOf(err) != f.leaving {
			fails(t, rpc.CodeUnavailable, err)
		}
		return rpc.CodeOf(err) == rpc.CodeUnavailable
	})
	p.order(t, "release")
	for i, c := range calls {
		for got, err := range c.All() {
			if err != nil || string(*got) != fmt.Sprint("call ", i) {
				t.Errorf("%v, %v", got, err)
			}
		}
	}
	_, err := call(t.Context(), cl, "Echo", nil)
	fails(t, rpc.CodeUnavailable, err)
	if err := p.in.Close(); err != nil {
		t.Error(err)
	}
	p.ends(t)
}
