package enginetest

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
)

// A Peer is the other end of a connection, which a test leads through a script. Each step fails the test when it takes
// until testkit.Patience after the connect. One goroutine at a time sends, and one receives.
type Peer struct {
	*net.TCPConn
	t testing.TB
}

// Send sends text.
func (p *Peer) Send(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		p.t.Fatalf("sending %.60q: %v", text, err)
	}
}

// Expect reads as many bytes as want has and compares them.
func (p *Peer) Expect(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(p, got); string(got) != want {
		p.t.Fatalf("received %.200q (%v), want %.200q", got[:n], err, want)
	}
}

// ExpectEnd reads the end of the server's stream, without a byte before it.
func (p *Peer) ExpectEnd() {
	p.t.Helper()
	if rest, err := io.ReadAll(p); len(rest) > 0 || err != nil {
		p.t.Fatalf("received %.200q (%v), want the end of the stream", rest, err)
	}
}

// ExpectReset reads until the server's reset. It ignores bytes before that, because a reset may overtake them.
func (p *Peer) ExpectReset() {
	p.t.Helper()
	if _, err := io.Copy(io.Discard, p); !errors.Is(err, syscall.ECONNRESET) {
		p.t.Fatalf("the stream ended with %v, want a reset", err)
	}
}

// Reset ends the connection with a reset in place of an end of stream.
func (p *Peer) Reset() {
	p.t.Helper()
	if err := errors.Join(p.SetLinger(0), p.Close()); err != nil {
		p.t.Fatal(err)
	}
}
