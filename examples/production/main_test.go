package main

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/examples/internal/try"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestProduction runs the example and ends it while a client is connected.
func TestProduction(t *testing.T) {
	srv, err := server()
	if err != nil {
		t.Fatal(err)
	}
	told, tell := context.WithCancel(t.Context())
	defer tell()
	end := make(chan error, 1)
	go func() { end <- serve(told, srv, "127.0.0.1:0", time.Minute) }()
	testkit.Eventually(t, "the listener", func() bool { return srv.Addr() != nil })
	c := try.Dial(t, srv.Addr().String())
	try.Talk(t, c, "hello\nis anybody there?\n", "HELLO", "IS ANYBODY THERE?")
	tell()
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes after the end", n)
	}
	_ = c.Close()
	if err := <-end; err != nil {
		t.Error(err)
	}
}
