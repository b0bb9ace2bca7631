package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/internal/pending"
)

// FuzzResponses: whatever a server sends, the call ends once, in its own response or a typed error, and the next one is made
// on a new connection. Eight bytes AA stand for the id of the request.
func FuzzResponses(f *testing.F) {
	const mark = 0xAAAAAAAAAAAAAAAA
	id := bytes.Repeat([]byte{0xAA}, 8)
	ok := rawResponse(mark, 0, "body")
	for _, b := range [][]byte{
		ok, append(ok, ok...), ok[:17], nil, rawResponse(mark, 5, rawError(100, "busy")), rawResponse(mark, 8, rawError(0, "")),
		rawResponse(0, 65, rawError(0, "going")), append(rawResponse(0, 65, rawError(0, "")), ok...), rawResponse(0, 64, rawError(0, "")),
		rawResponse(mark, 64, rawError(0, "")), rawResponse(mark, 11, ""), rawResponse(1, 0, ""), rawResponse(1<<32|pending.OneWaySlot, 1, rawError(0, "")),
		rawResponse(1<<32|pending.PingSlot, 0, ""), rawResponse(mark, 2, "\x00\x00\x00\x00\x00\x02\xff\xfe"), {0xED, 0xD1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xff, 0, 0, 0},
		[]byte("HTTP/1.1 200 OK\r\n\r\n"),
	} {
		f.Add(b)
	}
	inputs := make(chan []byte, 1)
	served := make(chan struct{}, 1)
	var asked uint64
	s := newStub(f, func(c *stubConn) {
		q := c.next()
		if q == nil {
			return
		}
		select {
		case b := <-inputs:
			asked = q.id
			c.Write(bytes.ReplaceAll(b, id, binary.BigEndian.AppendUint64(nil, q.id)))
			c.Conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c.r) // until the client has closed: no reset overtakes what was written
			served <- struct{}{}
		default: // asked again
		}
	})
	cl := client(f, ClientOptions{WaitForReady: true, Backoff: Backoff{Min: 1, Max: 1}, Heartbeat: -1, MaxPayload: 1 << 16}, s.addr())
	f.Fuzz(func(t *testing.T, b []byte) {
		inputs <- b
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		resp, err := Invoke[[]byte](ctx, cl, testKey, "Echo", text("x"), CallTimeout(time.Hour))
		<-served
		sent := bytes.ReplaceAll(b, id, binary.BigEndian.AppendUint64(nil, asked))
		if err != nil {
			asError(t, err)
			if ctx.Err() != nil {
				t.Fatalf("never ended: %v", err)
			}
		} else if !bytes.Contains(sent, *resp) {
			t.Errorf("%q is not in %q", *resp, sent)
		}
		if len(b) >= 16 && bytes.Equal(b[:12], ok[:12]) && sent[12] == 0 && sent[13] == 0 {
			if n := int(binary.BigEndian.Uint16(sent[14:])); len(sent) >= 16+n && (err != nil || !bytes.Equal(*resp, sent[16:16+n])) {
				t.Errorf("%v, want the body %q", err, sent[16:16+n])
			}
		}
	})
}
