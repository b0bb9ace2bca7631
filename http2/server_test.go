package http2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"testing"

	wire "golang.org/x/net/http2"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// site is what the tests ask net/http's client for.
func site(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/echo":
		echo(w, r)
	case "/facts":
		_, _ = fmt.Fprintf(w, "%s %s %s %v %v", r.Proto, r.Host, r.URL.Query().Get("q"), r.Header["X-A"], r.Header["Cookie"])
	case "/bytes":
		n, _ := strconv.Atoi(r.FormValue("n"))
		_, _ = io.WriteString(w, big(n))
	case "/trailer":
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set(http.TrailerPrefix+"X-More", "more")
		_, _ = fmt.Fprintf(w, "%s %v", b, r.Trailer)
		w.Header().Set("X-Sum", "sum")
	case "/early":
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "late")
	case "/none":
		w.WriteHeader(http.StatusNoContent)
	case "/bad":
		w.Header()["X-Bad"] = []string{"a\r\nb"}
		w.Header()["Connection"] = []string{"close"}
		w.Header().Set("X-Good", "good")
	default:
		http.NotFound(w, r)
	}
}

// Requests of net/http's client are answered as net/http would.
func TestRequests(t *testing.T) {
	s := start(t, site)
	c := s.client()
	do := func(method, path string, body io.Reader, edit func(*http.Request)) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(testkit.Context(t), method, s.url(path), body)
		if err != nil {
			t.Fatal(err)
		}
		if edit != nil {
			edit(req)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp, string(b)
	}
	if resp, body := do("POST", "/echo?a", strings.NewReader("body"), nil); resp.ProtoMajor != 2 || resp.StatusCode != 200 || body != "POST /echo?a body" || resp.ContentLength != int64(len(body)) {
		t.Errorf("%v %q", resp, body)
	}
	_, body := do("GET", "/facts?q=1", nil, func(r *http.Request) {
		r.Host = "b.test"
		r.Header["X-A"] = []string{"1", "2"}
		r.Header["Cookie"] = []string{"a=1; b=2"}
	})
	if body != "HTTP/2.0 b.test 1 [1 2] [a=1; b=2]" {
		t.Errorf("%q", body)
	}
	if _, body := do("GET", "/bytes?n=3000000", nil, nil); body != big(3000000) {
		t.Errorf("%d bytes", len(body))
	}
	up := big(2000000)
	if _, body := do("PUT", "/echo", strings.NewReader(up), nil); body != "PUT /echo "+up {
		t.Errorf("%d bytes", len(body))
	}
	if resp, body := do("HEAD", "/bytes?n=100", nil, nil); body != "" || resp.ContentLength != 100 {
		t.Errorf("HEAD: %q, length %d", body, resp.ContentLength)
	}
	if resp, body := do("GET", "/none", nil, nil); body != "" || resp.StatusCode != 204 || resp.Header["Content-Length"] != nil {
		t.Errorf("204: %q %v", body, resp)
	}
	resp, body := do("POST", "/trailer", io.MultiReader(strings.NewReader("x")), func(r *http.Request) {
		r.Trailer = http.Header{"X-In": {"in"}}
	})
	if body != "x map[X-In:[in]]" || resp.Trailer.Get("X-Sum") != "sum" || resp.Trailer.Get("X-More") != "more" {
		t.Errorf("%q %v", body, resp.Trailer)
	}
	var early []int
	_, body = do("GET", "/early", nil, func(r *http.Request) {
		*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if h.Get("Link") == "</a>" {
				early = append(early, code)
			}
			return nil
		}}))
	})
	if len(early) != 1 || early[0] != 103 || body != "late" {
		t.Errorf("%v %q", early, body)
	}
	if _, body := do("POST", "/echo", strings.NewReader("go"), func(r *http.Request) { r.Header.Set("Expect", "100-continue") }); body != "POST /echo go" {
		t.Errorf("%q", body)
	}
	if resp, _ := do("GET", "/bad", nil, nil); resp.Header.Get("X-Bad") != "" || resp.Header.Get("Connection") != "" || resp.Header.Get("X-Good") != "good" {
		t.Errorf("%v", resp.Header)
	}
	s.settles()
	st := s.f.Stats()
	if st.Requests != 10 || st.Responses[2] != 10 || st.Responses[1] < 1 || st.InvalidFields != 1 || st.ProtocolErrors+st.Floods+st.Resets != 0 {
		t.Errorf("%+v", st)
	}
}

// Requests beside each other on one connection each get their own answer.
func TestRequestsBesideEachOther(t *testing.T) {
	s := start(t, echo)
	c := s.client()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			body := big(i * 997 % 70000)
			resp, err := c.Post(s.url(fmt.Sprint("/", i)), "text/plain", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			got, err := io.ReadAll(resp.Body)
			if want := fmt.Sprintf("POST /%d %s", i, body); err != nil || string(got) != want {
				t.Errorf("%d: %d bytes, want %d: %v", i, len(got), len(want), err)
			}
		})
	}
	wg.Wait()
	s.settles()
}

// A plain port speaks both versions, however the first bytes are cut.
func TestEither(t *testing.T) {
	s := startWith(t, setup{handler: echo, init: func(f *Factory) func(*eddy.Pipeline) error {
		h1 := http1.NewHandler(f.handler, f.pool, http1.Options{})
		return Either(h1.Init, f.Init)
	}})
	for _, c := range []*http.Client{s.client(), {Transport: &http.Transport{DisableKeepAlives: true}}} {
		resp, err := c.Post(s.url("/x"), "", strings.NewReader("y"))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(b) != "POST /x y" {
			t.Errorf("HTTP/%d: %q", resp.ProtoMajor, b)
		}
	}
	r := s.connect()
	for i := range Preface {
		r.send(func() error { _, err := r.conn.Write([]byte(Preface[i : i+1])); return err })
	}
	r.send(func() error { return r.WriteSettings() })
	r.get(1, "/p")
	if a := r.answer(1); a.body != "GET /p " {
		t.Errorf("%+v", a)
	}
	almost := s.connect()
	r = almost
	r.send(func() error { _, err := io.WriteString(r.conn, "PRI * HTTP/1.1\r\nHost: a\r\n\r\n"); return err })
	if b, _ := io.ReadAll(r.conn); !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		t.Errorf("%q", b)
	}
}

// Behind TLS the client chooses by ALPN.
func TestALPN(t *testing.T) {
	cert, err := tlsx.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := startWith(t, setup{handler: func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %v", r.Proto, r.TLS != nil && r.TLS.HandshakeComplete)
	}, init: func(f *Factory) func(*eddy.Pipeline) error {
		h1 := http1.NewHandler(f.handler, f.pool, http1.Options{})
		layer, err := tlsx.Server(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}, f.pool, tlsx.Options{
			Established: tlsx.ByProtocol(map[string]func(*eddy.Pipeline) error{"h2": f.Init, "http/1.1": h1.Init}),
		})
		if err != nil {
			t.Fatal(err)
		}
		return func(p *eddy.Pipeline) error { return p.Add("tls", layer) }
	}})
	for major, h2 := range map[int]bool{1: false, 2: true} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: h2}
		if !h2 {
			tr.TLSClientConfig.NextProtos = []string{"http/1.1"}
		}
		resp, err := (&http.Client{Transport: tr}).Get("https://" + s.addr)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		tr.CloseIdleConnections()
		if want := fmt.Sprintf("HTTP/%d.%d true", major, major%2); string(b) != want {
			t.Errorf("%q, want %q", b, want)
		}
	}
}

// Handlers learn of the end of their request: by the client's reset, and by the end of the connection.
func TestHandlersLearnOfTheEnd(t *testing.T) {
	type end struct{ ctx, read, write error }
	ends := make(chan end, 2)
	entered := make(chan struct{}, 2)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		var e end
		_, e.read = io.ReadAll(r.Body)
		<-r.Context().Done()
		e.ctx = r.Context().Err()
		for e.write == nil {
			_, e.write = w.Write(make([]byte, 8<<10))
		}
		ends <- e
	})
	r := s.dial()
	r.request(1, false, headersOf("POST", "/")...)
	testkit.Receive(t, "the handler", entered)
	r.send(func() error { return r.WriteRSTStream(1, wire.ErrCodeCancel) })
	e := testkit.Receive(t, "the end", ends)
	var reset *StreamError
	if !errors.Is(e.ctx, context.Canceled) || !errors.As(e.read, &reset) || !errors.As(e.write, &reset) || !reset.Remote || reset.Code != CodeCancel {
		t.Errorf("after a reset: %+v", e)
	}
	r.request(3, false, headersOf("POST", "/")...)
	testkit.Receive(t, "the handler", entered)
	_ = r.conn.SetLinger(0)
	_ = r.conn.Close()
	e = testkit.Receive(t, "the end", ends)
	if !errors.Is(e.ctx, context.Canceled) || !errors.Is(e.read, io.ErrUnexpectedEOF) || !errors.Is(e.write, eddy.ErrClosed) {
		t.Errorf("after the end of the connection: %+v", e)
	}
	if st := s.f.Stats(); st.Resets != 1 {
		t.Errorf("%+v", st)
	}
}

// A handler that panics is answered 500 if nothing was sent, else its stream is reset. Others go on.
func TestPanics(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/quiet":
			panic(http.ErrAbortHandler)
		case "/begun":
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
			panic("begun")
		case "/short":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "short")
		case "/101":
			w.WriteHeader(http.StatusSwitchingProtocols)
		case "/":
			hello(w, r)
		default:
			panic("first")
		}
	})
	r := s.dial()
	for i, path := range []string{"/first", "/quiet", "/begun", "/short", "/101", "/"} {
		r.get(uint32(2*i+1), path)
	}
	all := r.answers(6, true)
	internal := wire.ErrCodeInternal
	for id, want := range map[uint32]struct {
		status, body string
		reset        *wire.ErrCode
	}{
		1: {"500", "the handler failed\n", nil}, 3: {"", "", &internal}, 5: {"200", "begun", &internal}, 7: {"", "", &internal},
		9: {"500", "the handler failed\n", nil}, 11: {"200", "hello", nil},
	} {
		a := all[id]
		if (a.reset == nil) != (want.reset == nil) || a.reset != nil && *a.reset != *want.reset || a.reset == nil && (a.status() != want.status || a.body != want.body) {
			t.Errorf("stream %d: %+v", id, a)
		}
	}
	testkit.Eventually(t, "the panics to be counted", func() bool { return s.pool.Stats().Panics == 3 }) // behind the answers
}

// A draining server lets requests in flight finish, takes those of a moment more, and refuses the others.
func TestDrain(t *testing.T) {
	goOn, entered := make(chan struct{}), make(chan struct{}, 1)
	s := startWith(t, setup{clock: true, handler: func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-goOn
		hello(w, r)
	}})
	r := s.dial()
	r.get(1, "/")
	testkit.Receive(t, "the handler", entered)
	done := make(chan eddy.DrainReport, 1)
	go func() {
		report, _ := s.srv.Shutdown(testkit.Context(t))
		done <- report
	}()
	if g, ok := r.next().(*wire.GoAwayFrame); !ok || g.LastStreamID != 1<<31-1 || g.ErrCode != wire.ErrCodeNo {
		t.Fatalf("%v", g)
	}
	r.get(3, "/") // was on its way
	testkit.Receive(t, "the handler", entered)
	s.clock.Advance(2 * drainGrace)
	if g, ok := r.next().(*wire.GoAwayFrame); !ok || g.LastStreamID != 3 || g.ErrCode != wire.ErrCodeNo {
		t.Fatalf("%v", g)
	}
	r.get(5, "/") // too late: told by the GOAWAY
	close(goOn)
	all := r.answers(2, true)
	if all[1].body != "hello" || all[3].body != "hello" || len(all) != 2 {
		t.Errorf("%+v", all)
	}
	if _, err := io.Copy(io.Discard, r.conn); err != nil {
		t.Error(err)
	}
	_ = r.conn.Close()
	if report := testkit.Receive(t, "the end of the drain", done); report.Drained != 1 || report.Forced != 0 {
		t.Errorf("%+v", report)
	}
}

// Refuse tells a client that its connection is not taken.
func TestRefuse(t *testing.T) {
	s := start(t, hello)
	b := s.f.Refuse(eddy.Refusal{})
	fr := wire.NewFramer(nil, bytes.NewReader(b))
	if f, err := fr.ReadFrame(); err != nil || f.Header().Type != wire.FrameSettings {
		t.Fatalf("%v %v", f, err)
	}
	f, err := fr.ReadFrame()
	if g, ok := f.(*wire.GoAwayFrame); err != nil || !ok || g.LastStreamID != 0 || string(g.DebugData()) != "Service Unavailable" {
		t.Errorf("%v %v", f, err)
	}
}
