package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-eddy/eddy/bench/internal/target"
)

// httpRequest is what every client of the http comparison sends.
const httpRequest = "GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench\r\nAccept: text/plain,*/*\r\n\r\n"

// plaintext compares HTTP servers that give a small answer over lasting connections.
func plaintext(ctx context.Context, b *binaries, s settings) (*report, error) {
	s.size = len(httpRequest)
	load, by := httpLoad, "the built-in generator, which compares every byte"
	if s.wrk != "" {
		var err error
		if load, err = wrkLoad(b.dir, s.wrk); err != nil {
			return nil, err
		}
		by = wrkVersion(s.wrk)
	}
	rep, err := beside(ctx, b, s, "requests", "http", load, httpServers)
	if err != nil {
		return nil, err
	}
	rep.Note = "Load: " + by + ". " + rep.Note
	return rep, nil
}

// httpIdle measures what an idle keep-alive connection costs.
func httpIdle(ctx context.Context, b *binaries, s settings) (*report, error) {
	return idleAfter(ctx, b, s, &script{greeting: []byte(httpRequest), until: []byte("\r\n\r\n" + target.HTTPBody)}, httpServers)
}

// httpServers are the HTTP servers that the comparisons have in common.
var httpServers = []contender{
	{Name: "net/http", binary: "nethttp"},
	{Name: "valyala/fasthttp", binary: "fasthttp"},
	{Name: "eddy, function on the loop", binary: "eddyhttp"},
	{Name: onPoolName, binary: "eddyhttp", args: []string{"-workers", "8"}},
}

func httpLoad(srv *server, s settings, c testCase) rounder {
	return &httpRound{srv.addr, httpRequest, s, c}
}

type httpRound struct {
	addr, request string
	s             settings
	c             testCase
}

// round asks the server once for its answer, and then compares every other answer with that one.
func (h *httpRound) round(ctx context.Context, mark func() error) (*result, error) {
	answer, err := askOnce(h.addr, h.request)
	if err != nil {
		return nil, err
	}
	l := &load{
		addr: h.addr, conns: h.c.conns, size: len(answer.text), pipeline: h.c.pipeline, request: []byte(h.request), same: answer.same,
		warmup: h.s.warmup, duration: h.s.duration, cpus: h.s.clientCPU,
	}
	return l.round(ctx, mark)
}

// httpAnswer is a server's answer. The value of Date, between the offsets from and to, changes each second.
type httpAnswer struct {
	text     []byte
	from, to int
}

func askOnce(addr, request string) (*httpAnswer, error) {
	c, err := net.DialTimeout("tcp", addr, startTimeout)
	if err != nil {
		return nil, err
	}
	return askOn(c, request)
}

// askOn asks on a connection that it closes.
func askOn(c net.Conn, request string) (*httpAnswer, error) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(startTimeout))
	if _, err := io.WriteString(c, request); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	in := bufio.NewReader(io.TeeReader(c, &text))
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, fmt.Errorf("after %q: %w", text.Bytes(), err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		return nil, fmt.Errorf("after %d bytes of the body: %w", n, err)
	}
	a := &httpAnswer{text: text.Bytes(), from: bytes.Index(text.Bytes(), []byte("Date: ")) + len("Date: ")}
	a.to = a.from + len(http.TimeFormat)
	if resp.StatusCode != http.StatusOK || resp.ContentLength != n || n == 0 || a.from < len("Date: ") {
		return nil, fmt.Errorf("the answer is not the one that was asked for: %s, %d bytes", resp.Status, n)
	}
	return a, nil
}

// fetch asks on a connection, and compares the answer as it arrives, by means of scratch.
func (a *httpAnswer) fetch(c io.ReadWriter, request string, scratch []byte) error {
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	for at := 0; at < len(a.text); {
		n, err := c.Read(scratch[:min(len(scratch), len(a.text)-at)])
		if err != nil {
			return fmt.Errorf("after %d of %d bytes of the answer: %w", at, len(a.text), err)
		}
		if !a.sameAt(at, scratch[:n]) {
			return errors.New("the answer differs from what it should be")
		}
		at += n
	}
	return nil
}

// same reports whether data is what a row of answers contains from offset at of an answer on.
func (a *httpAnswer) same(at int, data []byte) bool {
	for len(data) > 0 {
		n := min(len(data), len(a.text)-at)
		if !a.sameAt(at, data[:n]) {
			return false
		}
		data, at = data[n:], 0
	}
	return true
}

// sameAt is same within one answer.
func (a *httpAnswer) sameAt(at int, data []byte) bool {
	end := at + len(data)
	if head := min(end, a.from); head > at && !bytes.Equal(data[:head-at], a.text[at:head]) {
		return false
	}
	rest := max(at, a.to)
	return rest >= end || bytes.Equal(data[rest-at:], a.text[rest:end])
}
