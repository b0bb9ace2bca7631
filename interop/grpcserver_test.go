package interop

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // the server takes it
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/go-eddy/eddy/rpc"
)

// testService is the gRPC project's service for interoperability tests.
var testService = rpc.Key{Interface: "grpc.testing.TestService"}

// sizes of the messages in the cases.
var (
	requestSizes  = []int{27182, 8, 1828, 45904}
	responseSizes = []int32{31415, 9, 2653, 58979}
)

// foreign starts grpc-go's server with its own test service, and returns its address.
func foreign(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(srv, interop.NewTestServer())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // stopped before it served
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// client returns a client of ours for the server at addr.
func client(t *testing.T, addr string, zip bool) *rpc.GRPCClient {
	t.Helper()
	cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + addr}, Gzip: zip, Timeout: time.Minute, MaxPayload: 4 << 20})
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

func payloadOf(n int) *testgrpc.Payload { return &testgrpc.Payload{Body: make([]byte, n)} }

func open(t *testing.T, cl *rpc.GRPCClient, method string, opts ...rpc.CallOption) *rpc.CallStream {
	t.Helper()
	s, err := rpc.OpenStream(t.Context(), cl, testService, method, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestGRPCServer: the gRPC project's cases, with Eddy as the client and grpc-go as the server.
func TestGRPCServer(t *testing.T) {
	for _, zip := range []bool{false, true} {
		serverCases(t, client(t, foreign(t), zip))
	}
}

// serverCases are all cases of our client.
func serverCases(t *testing.T, cl *rpc.GRPCClient) {
	t.Run("unary", func(t *testing.T) { unaryCases(t, cl) })
	t.Run("streams", func(t *testing.T) { streamCases(t, cl) })
	t.Run("ends", func(t *testing.T) { endCases(t, cl) })
}

// unaryCases are empty_unary, large_unary, custom_metadata, status_code_and_message, special_status_message,
// unimplemented_method and unimplemented_service.
func unaryCases(t *testing.T, cl *rpc.GRPCClient) {
	ctx := t.Context()
	if _, err := rpc.Invoke[testgrpc.Empty](ctx, cl, testService, "EmptyCall", &testgrpc.Empty{}); err != nil {
		t.Error(err)
	}
	large := &testgrpc.SimpleRequest{ResponseSize: 314159, Payload: payloadOf(271828)}
	var header, trailer rpc.Metadata
	resp, err := rpc.Invoke[testgrpc.SimpleResponse](ctx, cl, testService, "UnaryCall", large, rpc.CallHeader(&header), rpc.CallTrailer(&trailer),
		rpc.CallMetadata(rpc.Pair{Key: "x-grpc-test-echo-initial", Value: "test_initial_metadata_value"}, rpc.Pair{Key: "x-grpc-test-echo-trailing-bin", Value: "\xab\xab\xab"}))
	if err != nil || len(resp.GetPayload().GetBody()) != 314159 {
		t.Fatalf("%v, %d bytes", err, len(resp.GetPayload().GetBody()))
	}
	if v, _ := header.Get("x-grpc-test-echo-initial"); v != "test_initial_metadata_value" {
		t.Errorf("header %v", header)
	}
	if v, _ := trailer.Get("x-grpc-test-echo-trailing-bin"); v != "\xab\xab\xab" {
		t.Errorf("trailer %v", trailer)
	}
	for _, text := range []string{"test status message", "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"} {
		_, err := rpc.Invoke[testgrpc.SimpleResponse](ctx, cl, testService, "UnaryCall", &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: 2, Message: text}})
		if s, ok := errors.AsType[*rpc.Status](err); !ok || s.Code != rpc.CodeUnknown || s.Message != text {
			t.Errorf("%v", err)
		}
	}
	for _, call := range []struct{ service, method string }{{testService.Interface, "UnimplementedCall"}, {"grpc.testing.UnimplementedService", "UnimplementedCall"}} {
		_, err := rpc.Invoke[testgrpc.Empty](ctx, cl, rpc.Key{Interface: call.service}, call.method, &testgrpc.Empty{})
		if s, ok := errors.AsType[*rpc.Status](err); !ok || s.Code != rpc.CodeUnimplemented || !errors.Is(err, rpc.ErrNotFound) {
			t.Errorf("%v: %v", call, err)
		}
	}
}

// streamCases are client_streaming, server_streaming, ping_pong and empty_stream.
func streamCases(t *testing.T, cl *rpc.GRPCClient) {
	up := open(t, cl, "StreamingInputCall")
	for _, n := range requestSizes {
		if err := up.Send(&testgrpc.StreamingInputCallRequest{Payload: payloadOf(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := up.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var sum testgrpc.StreamingInputCallResponse
	if err := up.Recv(&sum); err != nil || sum.AggregatedPayloadSize != 74922 {
		t.Errorf("%v, %v", err, &sum)
	}
	down := open(t, cl, "StreamingOutputCall")
	req := new(testgrpc.StreamingOutputCallRequest)
	for _, n := range responseSizes {
		req.ResponseParameters = append(req.ResponseParameters, &testgrpc.ResponseParameters{Size: n})
	}
	if err := down.Send(req); err != nil {
		t.Fatal(err)
	}
	if err := down.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var sizes []int32
	for m, err := range rpc.ReceiverOf[testgrpc.StreamingOutputCallResponse](down).All() {
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, int32(len(m.GetPayload().GetBody())))
	}
	if !slices.Equal(sizes, responseSizes) {
		t.Errorf("%v", sizes)
	}
	both := open(t, cl, "FullDuplexCall")
	for i, n := range responseSizes {
		err := both.Send(&testgrpc.StreamingOutputCallRequest{ResponseParameters: []*testgrpc.ResponseParameters{{Size: n}}, Payload: payloadOf(requestSizes[i])})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := rpc.ReceiverOf[testgrpc.StreamingOutputCallResponse](both).Recv(); err != nil || int32(len(m.GetPayload().GetBody())) != n {
			t.Fatalf("%v, %d bytes", err, len(m.GetPayload().GetBody()))
		}
	}
	for _, s := range []*rpc.CallStream{both, open(t, cl, "FullDuplexCall")} {
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := s.Recv(new(testgrpc.StreamingOutputCallResponse)); err != io.EOF {
			t.Errorf("%v", err)
		}
	}
}

// endCases are cancel_after_begin, cancel_after_first_response, timeout_on_sleeping_server, and a status on a stream.
func endCases(t *testing.T, cl *rpc.GRPCClient) {
	begun := open(t, cl, "StreamingInputCall")
	if err := begun.Send(&testgrpc.StreamingInputCallRequest{Payload: payloadOf(1)}); err != nil {
		t.Fatal(err)
	}
	begun.Close()
	if err := begun.Recv(new(testgrpc.StreamingInputCallResponse)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	ask := &testgrpc.StreamingOutputCallRequest{ResponseParameters: []*testgrpc.ResponseParameters{{Size: 31415}}, Payload: payloadOf(27182)}
	first := open(t, cl, "FullDuplexCall")
	if err := first.Send(ask); err != nil {
		t.Fatal(err)
	}
	if err := first.Recv(new(testgrpc.StreamingOutputCallResponse)); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if err := first.Recv(new(testgrpc.StreamingOutputCallResponse)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	late := open(t, cl, "FullDuplexCall", rpc.CallTimeout(50*time.Millisecond))
	if err := late.Send(&testgrpc.StreamingOutputCallRequest{Payload: payloadOf(27182)}); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := late.Recv(new(testgrpc.StreamingOutputCallResponse)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	status := open(t, cl, "FullDuplexCall")
	if err := status.Send(&testgrpc.StreamingOutputCallRequest{ResponseStatus: &testgrpc.EchoStatus{Code: 2, Message: "test status message"}}); err != nil {
		t.Fatal(err)
	}
	if err := status.Recv(new(testgrpc.StreamingOutputCallResponse)); err == nil {
		t.Error("a status did not end the stream")
	} else if s, ok := errors.AsType[*rpc.Status](err); !ok || s.Code != rpc.CodeUnknown || s.Message != "test status message" {
		t.Errorf("%v", err)
	}
}
