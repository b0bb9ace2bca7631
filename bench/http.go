package main

import (
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
	rep, err := compare(ctx, b, s, "requests", load, httpServers)
	if err != nil {
		return nil, err
	}
	rep.Note = "Load: " + by + "."
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
	{Name: "eddy, net/http handler on a pool", binary: "eddyhttp", args: []string{"-workers", "8"}},
}

func httpLoad(srv *server, s settings, c testCase) rounder { return &httpRound{srv.addr, s, c} }

type httpRound struct {
	addr string
	s    settings
	c    testCase
}

// round asks the server once for its answer, and then compares every other answer with that one.
func (h *httpRound) round(ctx context.Context, mark func() error) (*result, error) {
	answer, err := askOnce(h.addr)
	if err != nil {
		return nil, err
	}
	l := &load{
		addr: h.addr, conns: h.c.conns, size: len(answer.text), pipeline: h.c.pipeline, request: []byte(httpRequest), same: answer.same,
		warmup: h.s.warmup, duration: h.s.duration, cpus: h.s.clientCPU,
	}
	return l.round(ctx, mark)
}

// httpAnswer is a server's answer. The value of Date, between the offsets from and to, changes each second.
type httpAnswer struct {
	text     []byte
	from, to int
}

func askOnce(addr string) (*httpAnswer, error) {
	c, err := net.DialTimeout("tcp", addr, startTimeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(startTimeout))
	if _, err := io.WriteString(c, httpRequest); err != nil {
		return nil, err
	}
	var text []byte
	for buf := make([]byte, 4096); !bytes.HasSuffix(text, []byte("\r\n\r\n"+target.HTTPBody)); {
		n, err := c.Read(buf)
		if err != nil {
			return nil, fmt.Errorf("after %q: %w", text, err)
		}
		text = append(text, buf[:n]...)
	}
	a := &httpAnswer{text: text, from: bytes.Index(text, []byte("Date: ")) + len("Date: ")}
	a.to = a.from + len(http.TimeFormat)
	if !bytes.HasPrefix(text, []byte("HTTP/1.1 200 OK\r\n")) || a.from < len("Date: ") {
		return nil, errors.New("the answer is not the one that was asked for")
	}
	return a, nil
}

// same reports whether data is what a row of answers contains from offset at of an answer on.
func (a *httpAnswer) same(at int, data []byte) bool {
	for len(data) > 0 {
		n := min(len(data), len(a.text)-at)
		for i, c := range data[:n] {
			if k := at + i; c != a.text[k] && (k < a.from || k >= a.to) {
				return false
			}
		}
		data, at = data[n:], 0
	}
	return true
}
