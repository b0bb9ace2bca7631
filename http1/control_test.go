package http1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Trailer fields go both ways, announced or not, to an independent client.
func TestTrailers(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if _, ok := r.Trailer["X-Announced"]; !ok || r.Header.Get("Trailer") != "" {
			t.Errorf("announced %v, header %v", r.Trailer, r.Header)
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Trailer", "X-Sum, X-Never")
		_, _ = fmt.Fprintf(w, "%s %s", b, r.Trailer.Get("X-Announced"))
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
		w.Header().Set(http.TrailerPrefix+"Content-Length", "1")
		w.Header().Set(http.TrailerPrefix+"X-Bad", "a\r\nX-Injected: b")
	})
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.url("/"), io.MultiReader(strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	r.Trailer = http.Header{"X-Announced": {"told"}}
	resp, err := s.client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil || string(b) != "body told" {
		t.Errorf("%q, %v", b, err)
	}
	if got := fmt.Sprint(resp.Trailer); got != "map[X-Late:[yes] X-Never:[] X-Sum:[42]]" {
		t.Errorf("trailer %v", got)
	}
}

// A 1.0 client gets no chunks, hence no trailer.
func TestTrailerToHTTP10(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		hello(w, r)
		w.Header().Set("X-Sum", "42")
	})
	c := s.dial()
	c.send("GET / HTTP/1.0\r\n\r\n")
	if got := c.rest(); !strings.HasSuffix(got, "\r\n\r\nhello") || strings.Contains(got, "X-Sum: ") {
		t.Errorf("%q", got)
	}
}

func TestMaxRequests(t *testing.T) {
	s := startWith(t, setup{handler: hello, opts: Options{MaxRequests: 3}})
	c := s.dial()
	c.send(strings.Repeat(keepGet, 5))
	for i := range 3 {
		if resp, body := c.response("GET"); body != "hello" || resp.Close != (i == 2) {
			t.Errorf("response %d: %q, close=%v", i, body, resp.Close)
		}
	}
	if more := c.rest(); more != "" {
		t.Errorf("more: %q", more)
	}
}

// http.ResponseController's deadlines hold for the body and the response.
func TestHandlerSetsDeadlines(t *testing.T) {
	errs := make(chan error, 2)
	s := startWith(t, setup{marks: eddy.Watermarks{Low: 64 << 10, High: 256 << 10, Max: 1 << 20},
		handler: func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := errors.Join(rc.EnableFullDuplex(), rc.SetReadDeadline(time.Now().Add(30*time.Millisecond))); err != nil {
				t.Error(err)
			}
			_, err := io.ReadAll(r.Body)
			errs <- err
			if err := errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Now().Add(30*time.Millisecond))); err != nil {
				t.Error(err)
			}
			for err = nil; err == nil; {
				_, err = io.WriteString(w, big(100000))
			}
			errs <- err
		}})
	c := s.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx")
	for _, what := range []string{"reading", "writing"} {
		if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	got, _ := io.ReadAll(c.br)
	if bytes.HasSuffix(got, []byte("\r\n0\r\n\r\n")) {
		t.Error("the cut response looks complete")
	}
}

// A draining server lets a download and an upload that have begun go on to their end.
func TestDrainDuringTransfers(t *testing.T) {
	const size = 5 << 20
	begun := make(chan struct{}, 2)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if r.Method == "GET" {
			writePieces(w, size>>16, 1<<16)
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%d %v", n, err)
	})
	down, up := s.dial(), s.dial()
	down.send(keepGet)
	up.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, big(1<<16)))
	<-begun
	<-begun
	type outcome struct {
		report eddy.DrainReport
		err    error
	}
	ended := make(chan outcome, 1)
	ctx := testkit.Context(t)
	go func() {
		r, err := s.srv.Shutdown(ctx)
		ended <- outcome{r, err}
	}()
	testkit.Eventually(t, "both to be told", func() bool { return s.drained.Load() == 2 })
	up.send(big(size - 1<<16))
	resp, body := up.response("POST")
	if body != fmt.Sprintf("%d <nil>", size) || !resp.Close {
		t.Errorf("upload: %q, close=%v", body, resp.Close)
	}
	if _, body := down.response("GET"); len(body) != size {
		t.Errorf("download of %d bytes, want %d", len(body), size)
	}
	up.rest()
	down.rest()
	if o := <-ended; o.err != nil || o.report.Forced != 0 || o.report.Dropped != 0 {
		t.Errorf("%+v, %v", o.report, o.err)
	}
}

// A request that is not done at the drain deadline is cut: the handler's context ends, and its writes fail.
func TestDrainDeadlineCutsHandlers(t *testing.T) {
	entered, told := make(chan struct{}), make(chan error, 1)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		told <- r.Context().Err()
	})
	c := s.dial()
	c.send(keepGet)
	<-entered
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	report, err := s.srv.Shutdown(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || report.Forced != 1 || report.Dropped != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if err := <-told; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler was told %v", err)
	}
}

// When a client goes away in the middle of its body, the handler's read fails, and the connection has the right close
// reason.
func TestClientGoneInMidBody(t *testing.T) {
	entered, failed := make(chan struct{}, 1), make(chan error, 1)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		_, err := io.ReadAll(r.Body)
		failed <- err
	})
	for _, reset := range []bool{false, true} {
		c := s.dial()
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx")
		reason := eddy.CloseIncompleteRequest
		<-entered
		if reset {
			_ = c.SetLinger(0)
			reason = eddy.CloseIOError
		}
		_ = c.Close()
		if err := <-failed; !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("reset=%v: the handler read %v", reset, err)
		}
		s.waitClosed(reason, 1)
	}
}

// Each limit has its status, over the wire, and the connection ends after it.
func TestLimitStatuses(t *testing.T) {
	s := startWith(t, setup{handler: echo, opts: Options{MaxRequestLine: 64, MaxHeaderBytes: 256, MaxHeaderCount: 4, MaxBody: 10}})
	post := "POST / HTTP/1.1\r\nHost: a\r\n"
	for _, tt := range []struct {
		name, in string
		status   int
	}{
		{"request line", "GET /" + big(64) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
		{"method", big(64) + " / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
		{"header bytes", "GET / HTTP/1.1\r\nHost: a\r\nX: " + big(256) + "\r\n\r\n", 431},
		{"header count", "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n", 431},
		{"content length", post + "Content-Length: 11\r\n\r\n01234567890", 413},
		{"content length, not sent yet", post + "Content-Length: 11\r\nExpect: 100-continue\r\n\r\n", 413},
		{"chunk", post + "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n", 413},
		{"trailer bytes", post + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + big(256) + "\r\n\r\n", 431},
		{"trailer count", post + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\n\r\n", 431},
		{"coding", post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
		{"version", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
		{"expectation", post + "Content-Length: 1\r\nExpect: x\r\n\r\n", 417},
		{"host", "GET / HTTP/1.1\r\n\r\n", 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := s.dial()
			c.send(tt.in)
			if resp, _ := c.response("POST"); resp.StatusCode != tt.status || !resp.Close {
				t.Errorf("status %d close=%v, want %d", resp.StatusCode, resp.Close, tt.status)
			}
			if more := c.rest(); more != "" {
				t.Errorf("more: %q", more)
			}
		})
	}
}

// A smuggling attempt is answered once and nothing behind it is taken for a request, however it arrives.
func TestRefusalsByteByByte(t *testing.T) {
	s := startWith(t, setup{opts: small, handler: echo})
	for _, tt := range refusals() {
		t.Run(tt.name, func(t *testing.T) {
			c := s.dial()
			for i := range len(tt.in) {
				if _, err := c.Write([]byte(tt.in[i : i+1])); err != nil {
					break // refused already
				}
			}
			_, _ = io.WriteString(c, "\r\n\r\n"+keepGet)
			first, _ := http.ReadResponse(c.br, nil)
			if first == nil || first.StatusCode != tt.status {
				t.Fatalf("%v, want %d", first, tt.status)
			}
			_, _ = io.Copy(io.Discard, first.Body)
			if more, err := io.ReadAll(c.br); len(more) > 0 {
				t.Errorf("a second answer: %q, %v", more, err)
			}
		})
	}
}
