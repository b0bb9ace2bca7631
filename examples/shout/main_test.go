package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestShout runs the example on a free port.
func TestShout(t *testing.T) {
	srv := server()
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, "hello\r\nis anybody there?\n")
	r := bufio.NewReader(c)
	for _, want := range []string{"HELLO\n", "IS ANYBODY THERE?\n"} {
		if got, err := r.ReadString('\n'); got != want || err != nil {
			t.Errorf("answer %q (%v), want %q", got, err, want)
		}
	}
}
