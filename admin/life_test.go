package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestLife: a Server listens once, a taken address is an error that leaves nothing running, and Shutdown cuts a profile
// short.
func TestLife(t *testing.T) {
	s := newAdmin(t, nil)
	if s.Addr() != nil {
		t.Error("an address before Listen")
	}
	base := listen(t, s)
	if err := s.Listen(); !errors.Is(err, errServed) {
		t.Errorf("the second Listen: %v", err)
	}
	taken := newAdmin(t, func(o *Options) { o.Addr = s.Addr().String() })
	if err := taken.Listen(); err == nil {
		t.Error("an address that is taken was taken again")
	}
	if err := taken.Close(); err != nil {
		t.Error(err)
	}
	if err := taken.Listen(); !errors.Is(err, errServed) {
		t.Errorf("Listen after the end: %v", err)
	}
	testkit.Eventually(t, "readiness", func() bool { status, _ := fetch(t, base+"/readyz"); return status == 200 })
	testkit.Eventually(t, "samples", func() bool {
		_, body := fetch(t, base+"/stats.json?since=0")
		return len(decode[Snapshot](t, body).Samples) >= 2
	})
	ended := make(chan error, 1)
	go func() {
		resp, err := http.Get(base + "/debug/pprof/trace?seconds=60")
		if err == nil {
			resp.Body.Close()
		}
		ended <- err
	}()
	testkit.Eventually(t, "the trace", func() bool { return len(s.profile) == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	began := time.Now()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 50*time.Second {
		t.Errorf("the end waited %v for the trace", d)
	}
	<-ended
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("the second Shutdown: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestSamples: rates are what happened between two looks, loops that servers share count once, and no more than five minutes
// are kept.
func TestSamples(t *testing.T) {
	s := newAdmin(t, nil)
	g := &eddy.Group{Loops: 1}
	t.Cleanup(func() { g.Close() })
	one, two := echoServer(t, &eddy.Server{Group: g}), echoServer(t, &eddy.Server{Group: g})
	p := pool(t, executor.Options{Workers: 1, Queue: executor.HandOff})
	if err := errors.Join(s.Watch("one", one), s.Watch("two", two), s.WatchPools(p)); err != nil {
		t.Fatal(err)
	}
	s.samples.take()
	c := dial(t, one)
	const text = "hello"
	for range 3 {
		fmt.Fprint(c, text)
		if n, err := c.Read(make([]byte, 10)); n != len(text) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	gate := make(chan struct{})
	if err := p.SubmitFunc(func() { <-gate }); err != nil {
		t.Fatal(err)
	}
	if err := p.SubmitFunc(func() {}); err == nil {
		t.Error("taken by a pool that is full")
	}
	testkit.Eventually(t, "the numbers", func() bool { return one.Stats().Loops[0].BytesOut == 3*uint64(len(text)) && p.Stats().Running == 1 })
	s.samples.was.at = time.Now().Add(-2 * time.Second) // as if the sample before were two seconds old
	s.samples.take()
	close(gate)
	got := s.samples.after(-1)
	if len(got) != 1 {
		t.Fatalf("%d samples", len(got))
	}
	near := func(what string, got, want float64) {
		if got > want || got < want/20 { // a machine may be slow between the two lines above
			t.Errorf("%s: %v per second, want %v", what, got, want)
		}
	}
	now := got[0]
	near("bytes in", now.BytesIn, 7.5)
	near("bytes out", now.BytesOut, 7.5)
	near("requests", now.Requests, 1.5)
	near("accepted", now.Accepted, 0.5)
	near("rejected", now.PoolRejected, 0.5)
	if now.Seq != 2 || now.Connections != 1 || now.PoolRunning != 1 || now.Goroutines == 0 || now.Heap == 0 || now.Closed != nil {
		t.Errorf("%+v", now)
	}
	c.Close()
	testkit.Eventually(t, "the close", func() bool { return one.Stats().Closed[eddy.ClosePeerClosed] == 1 })
	s.samples.take()
	if got := s.samples.after(2); len(got) != 1 || got[0].Closed["peer_closed"] != 1 || len(got[0].Closed) != 1 {
		t.Errorf("%+v", got)
	}
	if err := s.CountRequests(func() uint64 { return 42 }); err != nil {
		t.Fatal(err)
	}
	if got := s.Snapshot(-1); got.Requests != 42 {
		t.Errorf("%d requests", got.Requests)
	}
	for range keptSamples + 10 {
		s.samples.take()
	}
	if got := s.samples.after(0); len(got) != keptSamples || got[0].Seq != 14 || got[keptSamples-1].Seq != keptSamples+13 {
		t.Errorf("%d samples from %d", len(got), got[0].Seq)
	}
}

// TestPages: the pages say what program it is, link to what there is, and hold nothing that their policy forbids.
func TestPages(t *testing.T) {
	s := newAdmin(t, func(o *Options) { o.Program = "<b>shop</b>" })
	w := ask(s, "GET", "/", "")
	page := w.Body.String()
	if w.Code != 200 || !strings.Contains(page, "&lt;b&gt;shop") || strings.Contains(page, `href="metrics"`) || strings.Contains(page, "logout") || !strings.Contains(page, "<option>write_timeout</option>") {
		t.Errorf("%d %.2000s", w.Code, page)
	}
	for path, kind := range assets() {
		w := ask(s, "GET", path, "")
		if w.Code != 200 || w.Header().Get("Content-Type") != kind || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		for _, foreign := range []string{"http://", "https://", "//cdn"} {
			if text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", ""); strings.Contains(text, foreign) {
				t.Errorf("%s names %s", path, foreign)
			}
		}
	}
	for _, bad := range []string{"<style", "style=", "onclick=", "javascript:"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	guarded := newAdmin(t, func(o *Options) { o.Token = goodToken })
	guarded.Handle(metricsRoute, http.NotFoundHandler())
	if page := ask(guarded, "GET", "/", "", "Authorization: Bearer "+goodToken).Body.String(); !strings.Contains(page, "logout") || !strings.Contains(page, `href="metrics"`) {
		t.Errorf("%.2000s", page)
	}
	if page := ask(guarded, "POST", "/login", "token=wrong", "Content-Type: application/x-www-form-urlencoded").Body.String(); !strings.Contains(page, `role="alert"`) || !strings.Contains(page, "the token is wrong") {
		t.Errorf("%.2000s", page)
	}
}

// TestTooManyConnections: when one address holds all its places, its next connection gets 503 before any request.
func TestTooManyConnections(t *testing.T) {
	addr := strings.TrimPrefix(listen(t, newAdmin(t, nil)), "http://")
	for range maxPerIP {
		enginetest.Dial(t, addr)
	}
	c := enginetest.Dial(t, addr)
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") || !strings.Contains(string(answer), "\r\nRetry-After: 1\r\n") {
		t.Errorf("told %q, %v", answer, err)
	}
}
