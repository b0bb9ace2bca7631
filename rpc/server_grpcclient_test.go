package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// This client knows the specification of gRPC and nothing of this module: requests of net/http.

type grpcPeer struct {
	t    testing.TB
	base string
	http *http.Client
}

// dialGRPC returns a client of a port of s.
func dialGRPC(t testing.TB, addr net.Addr) *grpcPeer {
	t.Helper()
	speaks := new(http.Protocols)
	speaks.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: speaks}
	t.Cleanup(tr.CloseIdleConnections)
	return &grpcPeer{t, "http://" + addr.String(), &http.Client{Transport: tr, Timeout: testkit.Patience}}
}

// grpcAnswer is a whole response.
type grpcAnswer struct {
	status  string // grpc-status and grpc-message
	msgs    []string
	header  http.Header
	trailer http.Header
}

func grpcMessage(flags byte, msg string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(msg)))
	return append(b, msg...)
}

// request makes a request whose fields are pairs of names and values.
func (p *grpcPeer) request(ctx context.Context, path string, body io.Reader, fields ...string) *http.Request {
	p.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", p.base+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc+json")
	r.Header.Set("TE", "trailers")
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

// call sends messages and reads the whole response.
func (p *grpcPeer) call(path string, msgs []string, fields ...string) grpcAnswer {
	p.t.Helper()
	var body bytes.Buffer
	for _, m := range msgs {
		body.Write(grpcMessage(0, m))
	}
	return p.send(p.request(context.Background(), path, &body, fields...))
}

func (p *grpcPeer) send(r *http.Request) grpcAnswer {
	p.t.Helper()
	resp, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	a := grpcAnswer{header: resp.Header}
	for {
		msg, err := readGRPC(resp.Body)
		if err == io.EOF {
			break
		}
		if err != nil {
			p.t.Fatal(err)
		}
		a.msgs = append(a.msgs, msg)
	}
	a.trailer = resp.Trailer
	a.status = grpcStatus(resp.Trailer)
	if only := grpcStatus(resp.Header); only != "" {
		if a.status != "" || len(a.msgs) > 0 {
			p.t.Errorf("a status in the header of a response with more: %v", resp.Header)
		}
		a.status, a.trailer = only, resp.Header
	}
	return a
}

func grpcStatus(h http.Header) string {
	return strings.TrimSpace(h.Get("Grpc-Status") + " " + h.Get("Grpc-Message"))
}

// readGRPC reads one message.
func readGRPC(r io.Reader) (string, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(r, b); err != nil {
		return "", fmt.Errorf("a message of %d bytes: %w", len(b), err)
	}
	if head[0] == 1 {
		return "gzip " + string(b), nil
	}
	return string(b), nil
}
