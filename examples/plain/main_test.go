package main

import (
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/examples/internal/try"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted counts what a listener has accepted.
type counted struct {
	net.Listener
	n atomic.Int64
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}

// TestPlain: lines are answered, a second connection waits for the first one's end, and a line that is too long ends its connection.
func TestPlain(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := &counted{Listener: inner}
	end := make(chan error, 1)
	go func() { end <- serve(ln, 1, time.Minute) }()
	a := try.Dial(t, ln.Addr().String())
	try.Talk(t, a, "hello\nis anybody there?\n", "HELLO", "IS ANYBODY THERE?")
	b := try.Dial(t, ln.Addr().String())
	for range 10 {
		try.Talk(t, a, "still here\n", "STILL HERE")
	}
	if n := ln.n.Load(); n != 1 {
		t.Errorf("%d connections were accepted at once", n)
	}
	_ = a.Close()
	try.Talk(t, b, "me\n", "ME")
	if _, err := b.Write([]byte(strings.Repeat("x", 2000))); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a line of 2000 bytes: %d bytes of answer, %v", n, err)
	}
	c := try.Dial(t, ln.Addr().String())
	try.Talk(t, c, "me\n", "ME")
	_ = ln.Close()
	_ = c.Close()
	if err := <-end; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
