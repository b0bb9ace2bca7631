package http1

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// The same handler must look the same through net/http's server and this one.
func TestResponsesMatchNetHTTP(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"empty":     func(http.ResponseWriter, *http.Request) {},
		"small":     hello,
		"html":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html><body>x")) },
		"large":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(big(300000))) },
		"pieces":    func(w http.ResponseWriter, _ *http.Request) { writePieces(w, 50, 700) },
		"declared":  func(w http.ResponseWriter, _ *http.Request) { declared(w, big(9000)) },
		"notfound":  http.NotFound,
		"redirect":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) },
		"nocontent": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"notmod":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) },
		"close":     func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close"); hello(w, r) },
		"twice": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("X-Late", "1")
			hello(w, r)
		},
		"values": func(w http.ResponseWriter, r *http.Request) {
			w.Header()["X-A"] = []string{"1", "2"}
			w.Header()["Date"] = nil
			w.Header().Set("Content-Type", "application/json")
			hello(w, r)
		},
		"flushed": func(w http.ResponseWriter, r *http.Request) { hello(w, r); w.(http.Flusher).Flush(); hello(w, r) },
		"encoded": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Encoding", "br"); hello(w, r) },
	}
	mux := http.NewServeMux()
	for name, h := range handlers {
		mux.Handle("/"+name, h)
	}
	ours := start(t, mux.ServeHTTP)
	theirs := httptest.NewServer(mux)
	t.Cleanup(theirs.Close)
	c := ours.client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for name := range handlers {
		for _, method := range []string{"GET", "HEAD"} {
			a, b := fetch(t, c, method, ours.url("/"+name)), fetch(t, c, method, theirs.URL+"/"+name)
			if a != b {
				t.Errorf("%s %s:\nours   %s\ntheirs %s", method, name, a, b)
			}
		}
	}
}

func writePieces(w io.Writer, n, size int) {
	for range n {
		_, _ = w.Write([]byte(big(size)))
	}
}

func declared(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = io.WriteString(w, body)
}

// fetch makes a request and describes the response.
func fetch(t *testing.T, c *http.Client, method, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	if resp.Header.Get("Date") != "" {
		resp.Header.Set("Date", "set")
	}
	if len(body) > 100 {
		body = fmt.Appendf(nil, "%d bytes %.40s", len(body), body)
	}
	te := resp.TransferEncoding
	if method == "HEAD" {
		te = nil // net/http names the coding of the body that it does not send
	}
	return fmt.Sprintf("%s length=%d te=%v close=%v %v %q", resp.Status, resp.ContentLength, te, resp.Close, resp.Header, body)
}

func TestStaticFiles(t *testing.T) {
	dir := t.TempDir()
	content := make([]byte, 1<<20)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f.bin"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, http.FileServer(http.Dir(dir)).ServeHTTP)
	c := s.client()
	get := func(rng string) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url("/f.bin"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if rng != "" {
			r.Header.Set("Range", rng)
		}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b
	}
	if code, b := get(""); code != 200 || !bytes.Equal(b, content) {
		t.Errorf("status %d, %d bytes", code, len(b))
	}
	if code, b := get("bytes=1000-1999"); code != 206 || !bytes.Equal(b, content[1000:2000]) {
		t.Errorf("range: status %d, %d bytes", code, len(b))
	}
}

func TestKeepAliveAndClose(t *testing.T) {
	s := start(t, hello)
	tests := []struct {
		name, in string
		close    bool
		header   string // behind the close that http.ReadResponse takes out
	}{
		{"1.1", keepGet, false, ""},
		{"1.1 close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true, ""},
		{"1.0", "GET / HTTP/1.0\r\n\r\n", true, ""},
		{"1.0 keep-alive", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false, "keep-alive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := s.dial()
			c.send(tt.in)
			resp, body := c.response("GET")
			if body != "hello" || resp.ContentLength != 5 {
				t.Errorf("%q, length %d", body, resp.ContentLength)
			}
			if got := resp.Header.Get("Connection"); got != tt.header || resp.Close != tt.close {
				t.Errorf("Connection: %q, close %v; want %q, %v", got, resp.Close, tt.header, tt.close)
			}
			if tt.close {
				if more := c.rest(); more != "" {
					t.Errorf("more: %q", more)
				}
				return
			}
			c.send(tt.in)
			if _, body := c.response("GET"); body != "hello" {
				t.Errorf("second response %q", body)
			}
		})
	}
}

// A 1.0 client gets no chunks: the end of the connection is the end of the body.
func TestLargeResponseToHTTP10(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { writePieces(w, 10, 3000) })
	c := s.dial()
	c.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	resp, body := c.response("GET")
	if len(resp.TransferEncoding) > 0 || len(body) != 30000 {
		t.Errorf("coding %v, %d bytes", resp.TransferEncoding, len(body))
	}
}

// No value of a handler can start a header field or a response.
func TestResponseSplittingIsImpossible(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Bad", "a\r\nX-Injected: 1")
		w.Header().Set("X-Nul", "a\x00")
		w.Header()["X Bad Name"] = []string{"1"}
		w.Header()["X-Bad\r\nX-Injected"] = []string{"1"}
		w.Header().Set("Transfer-Encoding", "chunked")
		w.Header().Set("X-Good", "1")
		hello(w, r)
	})
	c := s.dial()
	c.send(keepGet)
	resp, body := c.response("GET")
	if resp.Header.Get("X-Injected") != "" || resp.Header.Get("X-Bad") != "" || resp.Header.Get("X-Good") != "1" ||
		len(resp.TransferEncoding) > 0 || body != "hello" {
		t.Errorf("%v %v %q", resp.Header, resp.TransferEncoding, body)
	}
	if n := s.f.Stats().InvalidFields; n != 4 {
		t.Errorf("%d invalid fields counted, want 4", n)
	}
}

// A goroutine that the handler left behind cannot write any more, neither into the next response nor into memory that
// serves others.
func TestWritesAfterReturn(t *testing.T) {
	left := make(chan http.ResponseWriter, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/left" {
			hello(w, r)
			left <- w
			return
		}
		hello(w, r)
	})
	c := s.dial()
	c.send("GET /left HTTP/1.1\r\nHost: a\r\n\r\n")
	c.response("GET")
	w := <-left
	testkit.Eventually(t, "the handler's return", func() bool { return s.pool.Stats().Completed == 1 })
	if n, err := io.WriteString(w, "late"); n != 0 || !errors.Is(err, errReturned) {
		t.Errorf("Write: %d, %v", n, err)
	}
	if n, err := w.Write([]byte(big(1 << 20))); n != 0 || !errors.Is(err, errReturned) {
		t.Errorf("a large Write: %d, %v", n, err)
	}
	if err := http.NewResponseController(w).Flush(); !errors.Is(err, errReturned) {
		t.Errorf("Flush: %v", err)
	}
	if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, errReturned) {
		t.Errorf("Hijack: %v", err)
	}
	if err := Upgrade(w, &http.Request{ProtoMajor: 1, ProtoMinor: 1}, nil, nil); err == nil {
		t.Error("Upgrade succeeded")
	}
	w.WriteHeader(http.StatusEarlyHints)
	w.WriteHeader(http.StatusTeapot)
	c.send("GET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	resp, body := c.response("GET")
	if more := c.rest(); resp.StatusCode != 200 || body != "hello" || more != "" {
		t.Errorf("%d %q, then %q", resp.StatusCode, body, more)
	}
}

// Fields that frame the message are the server's, in whatever spelling a handler puts them into the map.
func TestFramingFieldsInAnySpelling(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["content-length"] = []string{"1"}
		w.Header()["TRANSFER-ENCODING"] = []string{"chunked"}
		w.Header()["connection"] = []string{"close"}
		w.Header()["trailer:x"] = []string{"cannot be sent"}
		w.Header()["content-type"] = []string{"text/x"}
		hello(w, r)
	})
	c := s.dial()
	c.send(keepGet)
	got := c.rest()
	head, _, _ := strings.Cut(strings.ToLower(got), "\r\n\r\n")
	for field, times := range map[string]int{"content-length: 1\r\n": 1, "transfer-encoding": 0, "connection: close": 1, "content-type": 1, "trailer": 0} {
		if n := strings.Count(head+"\r\n", field); n != times {
			t.Errorf("%q is there %d times, want %d, in %q", field, n, times, got)
		}
	}
}

// The field Connection names an Upgrade field beside close or keep-alive (RFC 9110 section 7.8), without the handler's
// help.
func TestConnectionNamesUpgrade(t *testing.T) {
	s := startWith(t, setup{
		handler: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/none" {
				w.Header()["Upgrade"] = nil
			} else {
				w.Header().Set("Upgrade", "x/1")
			}
			if r.URL.Path == "/early" {
				w.WriteHeader(http.StatusEarlyHints)
			}
			w.WriteHeader(http.StatusUpgradeRequired)
		},
		opts: Options{OnLoop: func(w *LoopResponse, r *LoopRequest) bool {
			if string(r.Path()) != "/loop" {
				return false
			}
			w.SetStatus(http.StatusUpgradeRequired)
			w.AddHeader("upgrade", "x/1")
			return true
		}},
	})
	for _, tt := range []struct{ request, want string }{
		{"GET / HTTP/1.1\r\n", "Upgrade"},
		{"GET / HTTP/1.1\r\nConnection: close\r\n", "close, Upgrade"},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n", "keep-alive, Upgrade"},
		{"GET /early HTTP/1.1\r\n", "Upgrade"},
		{"GET /none HTTP/1.1\r\n", ""},
		{"GET /loop HTTP/1.1\r\n", "Upgrade"},
		{"GET /loop HTTP/1.1\r\nConnection: close\r\n", "close, Upgrade"},
	} {
		c := s.dial()
		c.send(tt.request + "Host: a\r\n\r\n")
		heads := 1
		if strings.Contains(tt.request, "early") {
			heads = 2
		}
		for range heads {
			r := textproto.NewReader(c.br)
			status, err := r.ReadLine()
			if err != nil {
				t.Fatal(err)
			}
			h, err := r.ReadMIMEHeader()
			if got := strings.Join(h["Connection"], "|"); got != tt.want || err != nil {
				t.Errorf("%.40q: %s, Connection %q, %v, want %q", tt.request, status, got, err, tt.want)
			}
		}
		_ = c.Close()
	}
}

// A handler that promises a length must keep it; if it does not, the connection
// cannot go on.
func TestDeclaredLength(t *testing.T) {
	short := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		if r.URL.Path == "/long" {
			_, err := io.WriteString(w, "123456")
			short <- err
			return
		}
		_, _ = io.WriteString(w, "123")
	})
	c := s.dial()
	c.send(keepGet)
	if got := c.rest(); !strings.HasSuffix(got, "\r\n\r\n123") {
		t.Errorf("short response %q", got)
	}
	c = s.dial()
	c.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
	_ = c.rest()
	if err := <-short; !errors.Is(err, http.ErrContentLength) {
		t.Errorf("writing too much: %v", err)
	}
}

func TestInformationalResponses(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		hello(w, r)
	})
	c := s.dial()
	c.send(keepGet)
	if resp, _ := http.ReadResponse(c.br, nil); resp == nil || resp.StatusCode != 103 || resp.Header.Get("Link") == "" {
		t.Errorf("first %v", resp)
	}
	if resp, body := c.response("GET"); resp.StatusCode != 200 || body != "hello" {
		t.Errorf("then %d %q", resp.StatusCode, body)
	}
}

// TestHeadersAreNotShared: what one handler has set is not in the response of another, and a request that a handler keeps
// stays as it was.
func TestHeadersAreNotShared(t *testing.T) {
	requests := make(chan *http.Request, 10)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		w.Header().Set("X-Path", r.URL.Path)
		if r.URL.Path != "/none" {
			for i := range len(r.URL.Path) - 1 { // up to more than maxKeptFields
				w.Header().Set(fmt.Sprintf("X-%d", i), r.URL.Path)
			}
		}
	})
	c := s.client()
	var kept []*http.Request
	for _, path := range []string{"/a", "/none", "/abcdefghijkl", "/none", "/ab?q=1", "/none"} {
		resp, err := c.Get(s.url(path))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		kept = append(kept, <-requests)
		want := 3 // with Date and Content-Length
		if path != "/none" {
			want += len(resp.Request.URL.Path) - 1
		}
		if len(resp.Header) != want || resp.Header.Get("X-Path") != resp.Request.URL.Path {
			t.Errorf("%s: %v, want %d fields", path, resp.Header, want)
		}
	}
	if kept[4].RequestURI != "/ab?q=1" || kept[4].URL.RawQuery != "q=1" || kept[0].URL.Path != "/a" || kept[0].Header.Get("User-Agent") == "" {
		t.Errorf("the kept requests are %v and %v", kept[0], kept[4])
	}
}
