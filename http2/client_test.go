package http2

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// clientSite is what the interop tests ask.
func clientSite() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Method", r.Method)
		w.Header().Set("X-Proto", r.Proto)
		w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
		_, _ = io.Copy(w, r.Body)
	})
	mux.HandleFunc("/trailer", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Back")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-Back", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "1")
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			_, _ = io.WriteString(w, "plain")
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		zw := gzip.NewWriter(w)
		_, _ = io.WriteString(zw, "packed")
		_ = zw.Close()
	})
	mux.HandleFunc("/refuse", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, bigText(1<<20)) })
	return mux
}

// everyServer runs f against our server and that of net/http, plain and behind TLS.
func everyServer(t *testing.T, h http.Handler, f func(t *testing.T, tr *Transport, base string)) {
	t.Run("ours", func(t *testing.T) { f(t, transport(t, &Transport{}), ourServer(t, h)) })
	t.Run("theirs", func(t *testing.T) { f(t, transport(t, &Transport{}), theirServer(t, h, false, true)) })
	t.Run("tls", func(t *testing.T) {
		f(t, transport(t, &Transport{Secure: secure(t, "h2")}), theirServer(t, h, true, true))
	})
}

// TestClientInterop: methods, bodies of both kinds, fields, statuses, trailers both ways and gzip.
func TestClientInterop(t *testing.T) {
	everyServer(t, clientSite(), func(t *testing.T, tr *Transport, base string) {
		for _, n := range []int{0, 1, 16 << 10, 3 << 20} {
			text := bigText(n)
			for _, body := range []io.Reader{strings.NewReader(text), struct{ io.Reader }{strings.NewReader(text)}} {
				o := fetch(tr, request(t, "POST", base+"/echo", body))
				if o.err != nil || o.body != text || o.resp.Header.Get("X-Method") != "POST" || o.resp.Header.Get("X-Proto") != "HTTP/2.0" || o.resp.ProtoMajor != 2 {
					t.Fatalf("%d bytes by %T: %v, %d came back, %v", n, body, o.err, len(o.body), o.resp)
				}
				if _, known := body.(*strings.Reader); known && o.resp.Header.Get("X-Length") != fmt.Sprint(n) {
					t.Errorf("%d bytes: the server saw a length of %s", n, o.resp.Header.Get("X-Length"))
				}
			}
		}
		if o := fetch(tr, request(t, "HEAD", base+"/echo", nil)); o.err != nil || o.body != "" || o.resp.Header.Get("X-Method") != "HEAD" {
			t.Errorf("HEAD: %+v", o)
		}
		r := request(t, "POST", base+"/trailer", struct{ io.Reader }{strings.NewReader("abc")})
		r.Trailer = http.Header{"X-Sum": {"six"}}
		o := fetch(tr, r)
		if o.err != nil || o.body != "abc" || o.resp.Trailer.Get("X-Back") != "six" || o.resp.Trailer.Get("X-Late") != "1" {
			t.Errorf("trailers: %v %q %v", o.err, o.body, o.resp)
		}
		if o := fetch(tr, request(t, "GET", base+"/gzip", nil)); o.err != nil || o.body != "packed" || !o.resp.Uncompressed || o.resp.Header.Get("Content-Encoding") != "" || o.resp.ContentLength != -1 {
			t.Errorf("gzip: %+v", o)
		}
		r = request(t, "GET", base+"/gzip", nil)
		r.Header.Set("Range", "bytes=0-")
		if o := fetch(tr, r); o.err != nil || o.body != "plain" {
			t.Errorf("a range: %+v", o)
		}
		r = request(t, "GET", base+"/gzip", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		if o := fetch(tr, r); o.err != nil || o.body == "packed" || o.resp.Uncompressed || o.resp.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("gzip that the caller has asked for: %+v", o)
		}
		if s := tr.Stats(); s.Open != 1 || s.Streams != 0 || s.Idle != 1 {
			t.Errorf("all of it on one connection: %+v", s)
		}
	})
}

// TestClientInformational: 1xx responses are told, 100 Continue lets a body go and a refusal does not.
func TestClientInformational(t *testing.T) {
	everyServer(t, clientSite(), func(t *testing.T, tr *Transport, base string) {
		var mu sync.Mutex
		var told []string
		ctx := httptrace.WithClientTrace(testkit.Context(t), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprint(code, h.Get("Link")))
				return nil
			},
			Got100Continue: func() {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, "go")
			},
		})
		if o := fetch(tr, request(t, "GET", base+"/hints", nil).WithContext(ctx)); o.err != nil || o.resp.StatusCode != http.StatusNoContent {
			t.Errorf("hints: %+v", o)
		}
		tr.ExpectContinueTimeout = -1 // read at each request; only the server lets the body go
		r := request(t, "POST", base+"/echo", strings.NewReader("body")).WithContext(ctx)
		r.Header.Set("Expect", "100-continue")
		if o := fetch(tr, r); o.err != nil || o.body != "body" {
			t.Errorf("100-continue: %+v", o)
		}
		untouched := &countingBody{}
		r = request(t, "POST", base+"/refuse", untouched).WithContext(ctx)
		r.Header.Set("Expect", "100-continue")
		if o := fetch(tr, r); o.err != nil || o.resp.StatusCode != http.StatusForbidden {
			t.Errorf("a refusal: %+v", o)
		}
		testkit.Eventually(t, "the body to be closed", untouched.isClosed)
		if untouched.read() != 0 {
			t.Errorf("a body that the server did not want was read")
		}
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(told, " "); got != "103 </a> go 100 " && got != "103</a> go 100" {
			t.Errorf("told %q", got)
		}
	})
}

// countingBody is a body that never ends.
type countingBody struct {
	mu     sync.Mutex
	n      int
	closed bool
}

func (b *countingBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, errors.New("closed")
	}
	b.n += len(p)
	return len(p), nil
}

func (b *countingBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

func (b *countingBody) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

func (b *countingBody) read() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// TestClientBesides: a response that nobody reads holds its own stream only; closing it resets the stream.
func TestClientBesides(t *testing.T) {
	everyServer(t, clientSite(), func(t *testing.T, tr *Transport, base string) {
		unread, err := tr.RoundTrip(request(t, "GET", base+"/big", nil))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if o := fetch(tr, request(t, "GET", base+"/big", nil)); o.err != nil || o.body != bigText(1<<20) {
					t.Errorf("beside it: %v, %d bytes", o.err, len(o.body))
				}
			})
		}
		wg.Wait()
		if s := tr.Stats(); s.Open != 1 || s.Streams != 1 {
			t.Errorf("with the unread one: %+v", s)
		}
		_ = unread.Body.Close()
		testkit.Eventually(t, "the stream to end", func() bool { return tr.Stats().Streams == 0 })
		if _, err := unread.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("a read behind the close: %v", err)
		}
		if o := fetch(tr, request(t, "GET", base+"/echo", nil)); o.err != nil || tr.Stats().Open != 1 {
			t.Errorf("afterwards: %+v", o)
		}
	})
}

// TestClientCallback: Do on the loop, with ReadBody, its limit and its trailer; RoundTrip and Close refuse to block there.
func TestClientCallback(t *testing.T) {
	base := ourServer(t, clientSite())
	tr := transport(t, &Transport{})
	read := func(path string, most int64) ([]byte, error) {
		type result struct {
			b   []byte
			err error
		}
		done := make(chan result, 1)
		err := tr.Do(request(t, "GET", base+path, nil), func(resp *http.Response, err error) {
			if err == nil {
				err = ReadBody(resp, most, func(b []byte, err error) { done <- result{b, err} })
			}
			if err != nil {
				done <- result{nil, err}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		r := testkit.Receive(t, "the body", done)
		return r.b, r.err
	}
	if b, err := read("/big", 1<<20); err != nil || string(b) != bigText(1<<20) {
		t.Errorf("a whole body: %v, %d bytes", err, len(b))
	}
	if _, err := read("/big", 1<<20-1); !errors.Is(err, ErrBodyTooLong) {
		t.Errorf("a body that is too long: %v", err)
	}
	if b, err := read("/hints", 0); err != nil || len(b) != 0 {
		t.Errorf("no body: %v %q", err, b)
	}
	errs := make(chan error, 2)
	if err := tr.Do(request(t, "GET", base+"/echo", nil), func(*http.Response, error) {
		_, err := tr.RoundTrip(request(t, "GET", base+"/echo", nil))
		errs <- err
		errs <- tr.Close()
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := testkit.Receive(t, "the refusal", errs); !errors.Is(err, eddy.ErrOnLoop) {
			t.Errorf("blocking on the loop: %v", err)
		}
	}
	if err := tr.Do(request(t, "GET", base, nil), nil); err == nil {
		t.Error("Do without a function has begun")
	}
}

// TestClientTunnel: CONNECT sends and receives at the same time, and either end can be first to end.
func TestClientTunnel(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		b := make([]byte, 100)
		for {
			n, err := r.Body.Read(b)
			_, _ = w.Write(bytes.ToUpper(b[:n]))
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	})
	everyServer(t, h, func(t *testing.T, tr *Transport, base string) {
		for _, first := range []string{"request", "response"} {
			pr, pw := io.Pipe()
			r := request(t, "CONNECT", base, pr)
			r.Host = "far.example:443"
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 5)
			for range 3 {
				if _, err := pw.Write([]byte("hello")); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "HELLO" {
					t.Fatalf("%q, %v", b, err)
				}
			}
			if first == "request" {
				_ = pw.Close()
				if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
					t.Errorf("the end of the tunnel: %q, %v", rest, err)
				}
			}
			_ = resp.Body.Close()
			testkit.Eventually(t, "the tunnel to end", func() bool { return tr.Stats().Streams == 0 })
			if _, err := pw.Write([]byte("x")); err == nil {
				t.Error("the body of an ended tunnel is still read")
			}
		}
	})
}

// TestClientRefuses: what cannot be sent is refused before anything is.
func TestClientRefuses(t *testing.T) {
	tr := transport(t, &Transport{TLS: &tls.Config{Renegotiation: tls.RenegotiateFreelyAsClient}})
	for want, change := range map[string]func(r *http.Request){
		"no URL with a host": func(r *http.Request) { r.URL.Host = "" },
		"unsupported scheme": func(r *http.Request) { r.URL.Scheme = "ftp" },
		"enegotiation":       func(r *http.Request) { r.URL.Scheme = "https" },
		"method":             func(r *http.Request) { r.Method = "G T" },
		"malformed host":     func(r *http.Request) { r.Host = "a b" },
		"header field":       func(r *http.Request) { r.Header["X"] = []string{"a\nb"} },
		"needs HTTP/1.1":     func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"trailer field":      func(r *http.Request) { r.Trailer = http.Header{"Content-Length": nil} },
		"needs the method":   func(r *http.Request) { r.Header[":protocol"] = []string{"websocket"} },
	} {
		body := &countingBody{}
		r := request(t, "POST", "http://127.0.0.1:1/", body)
		change(r)
		if _, err := tr.RoundTrip(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if !body.isClosed() || body.read() != 0 {
			t.Errorf("%s: the body was read, or not closed", want)
		}
	}
	for want, bad := range map[string]*Transport{
		"MaxConns is -1":              {MaxConns: -1},
		"MaxHeaderCount is -5":        {MaxHeaderCount: -5},
		"ConnectTimeout is -1s: it":   {ConnectTimeout: -1e9},
		"PingTimeout is -1s: it must": {PingTimeout: -1e9},
	} {
		if _, err := bad.RoundTrip(request(t, "GET", "http://127.0.0.1:1/", nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if err := bad.Close(); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.RoundTrip(request(t, "GET", "http://127.0.0.1:1/", nil).WithContext(ctx)); err == nil {
		t.Error("a request whose context has ended")
	}
}

// TestClientByALPN: one RoundTripper for servers of both versions, which dials a server of the older one once for nothing.
func TestClientByALPN(t *testing.T) {
	older, newer := theirServer(t, clientSite(), true, false), theirServer(t, clientSite(), true, true)
	plain := http1Server(t, clientSite())
	b := &ByALPN{}
	b.HTTP2 = transport(t, &Transport{Secure: secure(t, "h2", "http/1.1")})
	b.HTTP1 = newHTTP1(t)
	for range 3 {
		for base, want := range map[string]string{older: "HTTP/1.1", newer: "HTTP/2.0", plain: "HTTP/1.1"} {
			o := fetch(b, request(t, "POST", base+"/echo", struct{ io.Reader }{strings.NewReader("abc")}))
			if o.err != nil || o.body != "abc" || o.resp.Header.Get("X-Proto") != want {
				t.Errorf("%s: %v %q %v, want %s", base, o.err, o.body, o.resp, want)
			}
			if o := fetch(b, request(t, "GET", base+"/gzip", nil)); o.err != nil || o.body != "packed" || !o.resp.Uncompressed {
				t.Errorf("%s: gzip: %+v", base, o)
			}
		}
	}
	if s := b.HTTP2.Stats(); s.Open != 1 || s.Requests != 7 {
		t.Errorf("HTTP2: %+v; want one connection, and one request that went to HTTP1", s)
	}
	_, err := b.HTTP2.RoundTrip(request(t, "GET", older, nil))
	if !errors.Is(err, ErrNotHTTP2) {
		t.Errorf("HTTP2 alone: %v", err)
	}
	b.CloseIdleConnections()
	testkit.Eventually(t, "idle connections to close", func() bool { return b.HTTP2.Stats().Open == 0 && b.HTTP1.Stats().Open == 0 })
	if len(b.older) != 1 {
		t.Errorf("remembered: %v", b.older)
	}
	for i := range 2 * mostOlder {
		b.remember(fmt.Sprint(i))
	}
	if len(b.older) != mostOlder {
		t.Errorf("%d hosts are remembered, limit %d", len(b.older), mostOlder)
	}
}

// TestClientBodyInMemory: a short body that lies in memory needs no goroutine; a ContentLength that is not its own is an error.
func TestClientBodyInMemory(t *testing.T) {
	everyServer(t, clientSite(), func(t *testing.T, tr *Transport, base string) {
		for _, n := range []int{1, bodyPiece - 1, bodyPiece, bodyPiece + 1} {
			text := bigText(n)
			if o := fetch(tr, request(t, "POST", base+"/echo", strings.NewReader(text))); o.err != nil || o.body != text || o.resp.Header.Get("X-Length") != fmt.Sprint(n) {
				t.Errorf("%d bytes: %v, %d came back", n, o.err, len(o.body))
			}
		}
		for length, want := range map[int64]string{2: "longer than its ContentLength of 2", 4: "1 bytes shorter than its ContentLength of 4"} {
			r := request(t, "POST", base+"/echo", strings.NewReader("abc"))
			r.ContentLength = length
			if o := fetch(tr, r); o.err == nil || !strings.Contains(o.err.Error(), want) {
				t.Errorf("ContentLength %d: %v", length, o.err)
			}
		}
	})
}
