package websocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/enginetest"
)

// A handshake with a body is refused, whatever the body looks like. The next request comes after the body.
func TestHandshakeWithBody(t *testing.T) {
	s := start(t, Options{})
	trap := frame(0x81, "trap")
	for name, in := range map[string]string{
		"length": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(trap), trap),
		"chunks": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(trap), trap),
	} {
		t.Run(name, func(t *testing.T) {
			c := s.rawConn()
			c.t = t
			c.send(handshake + in + handshake + "\r\n" + frame(0x81, "open"))
			resp, err := http.ReadResponse(c.br, nil)
			if err != nil || resp.StatusCode != http.StatusBadRequest {
				t.Fatalf("%v, %v", resp, err)
			}
			text, err := io.ReadAll(resp.Body)
			if err != nil || !strings.Contains(string(text), "body") {
				t.Errorf("%q, %v", text, err)
			}
			if resp, err = http.ReadResponse(c.br, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%v, %v", resp, err)
			}
			c.want(0x81, "open")
			if err := <-s.errs; err == nil || !strings.Contains(err.Error(), "body") {
				t.Errorf("Upgrade returned %v", err)
			}
			if err := <-s.errs; err != nil {
				t.Errorf("Upgrade without a body returned %v", err)
			}
		})
	}
	if n := s.stats.Messages(); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
}

// A server that cannot upgrade answers the client with 500 and returns the reason to the handler. Both are counted.
func TestServerCannotUpgrade(t *testing.T) {
	var stats Stats
	errs := make(chan error, 1)
	z := newCompression(t, CompressionOptions{ContextTakeover: true})
	mux := http.NewServeMux()
	upgrade := func(path string, h Handler, o Options, wrap func(http.ResponseWriter) http.ResponseWriter) {
		o.Stats = &stats
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			_, err := Upgrade(wrap(w), r, h, o)
			errs <- err
		})
	}
	plain := func(w http.ResponseWriter) http.ResponseWriter { return w }
	upgrade("/plain", newEcho(), Options{}, plain)
	upgrade("/wrapped", newEcho(), Options{Compression: z}, func(w http.ResponseWriter) http.ResponseWriter {
		return struct{ http.ResponseWriter }{w}
	})
	upgrade("/handler", nil, Options{}, plain)
	upgrade("/options", newEcho(), Options{MaxFrame: -1}, plain)
	theirs := httptest.NewServer(mux)
	t.Cleanup(theirs.Close)
	ours := "http://" + serveHTTP(t, mux)
	for i, tt := range []struct{ url, why string }{
		{theirs.URL + "/plain", "needs a ResponseWriter of this package, got *http.response"},
		{ours + "/wrapped", "needs a ResponseWriter of this package, got struct"},
		{ours + "/handler", "without a Handler"},
		{ours + "/options", "MaxFrame"},
	} {
		resp := askUpgrade(t, tt.url)
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusInternalServerError || err != nil || strings.Contains(string(text), tt.why) {
			t.Errorf("%s: %d %q, %v", tt.url, resp.StatusCode, text, err)
		}
		err = <-errs
		var he *HandshakeError
		if !errors.As(err, &he) || he.Status != resp.StatusCode || he.Err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: Upgrade returned %v, want %q", tt.url, err, tt.why)
		}
		if n := stats.Refused(); n != uint64(i+1) {
			t.Errorf("%s: %d refusals counted, want %d", tt.url, n, i+1)
		}
	}
	if n := z.Stats().Windows; n != 0 {
		t.Errorf("%d bytes of windows are still reserved", n)
	}
}

// An Upgrade after the response has begun fails and leaves the response as it is.
func TestUpgradeAfterTheResponse(t *testing.T) {
	var stats Stats
	errs := make(chan error, 1)
	resp := askUpgrade(t, "http://"+serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		_, err := Upgrade(w, r, newEcho(), Options{Stats: &stats})
		errs <- err
	})))
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || string(text) != "begun" || err != nil {
		t.Errorf("%d %q, %v", resp.StatusCode, text, err)
	}
	var he *HandshakeError
	if err := <-errs; err == nil || errors.As(err, &he) || stats.Refused() != 0 {
		t.Errorf("Upgrade returned %v, %d refusals counted", err, stats.Refused())
	}
}

// serveHTTP serves h with package http1 and returns the address.
func serveHTTP(t *testing.T, h http.Handler) string {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Shutdown(context.Background()); err != nil {
			t.Errorf("pool: %v", err)
		}
	})
	srv := &eddy.Server{Loops: 1, Init: http1.NewHandler(h, pool, http1.Options{}).Init}
	return enginetest.Serve(t, srv)
}

// askUpgrade sends a handshake that is right and offers compression, with net/http's client.
func askUpgrade(t *testing.T, url string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Extensions": {deflateName}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
	}
	tr := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
