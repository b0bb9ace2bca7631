package main

import (
	"io"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/examples/internal/try"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFrame makes the example's call, and one that it does not serve.
func TestFrame(t *testing.T) {
	srv, err := server()
	if err != nil {
		t.Fatal(err)
	}
	c := try.Dial(t, try.Serve(t, srv))
	for _, step := range []struct{ request, response []byte }{
		{frame.AppendRequest(nil, 7, frame.Call, []byte("hello")), frame.AppendResponse(nil, 7, []byte("HELLO"))},
		{frame.AppendRequest(nil, 8, frame.FirstApp, nil), frame.AppendError(nil, 8, &frame.StatusError{Status: frame.StatusNotFound, Message: "only CALL is served"})},
	} {
		if _, err := c.Write(step.request); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(step.response))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != string(step.response) {
			t.Errorf("%q, %v, want %q", got, err, step.response)
		}
	}
}
