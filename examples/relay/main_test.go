package main

import (
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/examples/internal/try"
	"github.com/go-eddy/eddy/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRelay runs the example: bytes both ways, and the end of one direction alone.
func TestRelay(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	reports := make(chan relay.Report, 1)
	p, err := newProgram(target.Addr(), func(r relay.Report) { reports <- r })
	if err != nil {
		t.Fatal(err)
	}
	if err := p.srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c := try.Dial(t, p.srv.Addr().String())
	io.WriteString(c, "question")
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	s, err := target.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if b, err := io.ReadAll(s); string(b) != "question" {
		t.Fatalf("%q, %v", b, err)
	}
	io.WriteString(s, "answer")
	s.Close()
	if b, err := io.ReadAll(c); string(b) != "answer" {
		t.Fatalf("%q, %v", b, err)
	}
	if r := <-reports; r.In != 8 || r.Out != 6 {
		t.Errorf("%+v", r)
	}
	if report, err := p.end(time.Minute); err != nil || report.Forced != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
