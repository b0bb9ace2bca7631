package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
)

// counted is a Call that counts its ends.
type counted struct {
	serve func(x *Exchange)
	over  *atomic.Int32
}

func (c counted) Serve(x *Exchange) { c.serve(x) }

func (c counted) Refused(w *http1.LoopResponse, status int, why string) {
	w.SetStatus(http.StatusTeapot)
	w.AddHeader("x-why", fmt.Sprint(status, " ", why))
	w.Body = append(w.Body[:0], "own words"...)
}

func (c counted) Over() { c.over.Add(1) }

// TestCalls: what a Call is given and answers, on a pool and on the loop, and what of it the server does in its place.
func TestCalls(t *testing.T) {
	var over atomic.Int32
	hang := make(chan struct{})
	defer close(hang)
	serves := map[string]func(x *Exchange){
		"/whole": func(x *Exchange) {
			_ = x.Begin(http.StatusCreated, hpack.HeaderField{Name: "x-early", Value: "1"})
			_ = x.Give(append([]byte("got "), x.Whole()...))
			x.End(hpack.HeaderField{Name: "x-late", Value: "2"})
		},
		"/stream": func(x *Exchange) {
			_ = x.Begin(http.StatusOK)
			b, err := io.ReadAll(x.Body())
			for i := range 3 {
				_ = x.Send(fmt.Appendf(nil, "%d%s%v ", i, b, err))
			}
			x.End()
		},
		"/nothing": func(*Exchange) {},
		"/half":    func(x *Exchange) { _ = x.Begin(http.StatusOK); _ = x.Send([]byte("half")) },
		"/panic":   func(*Exchange) { panic("secret") },
		"/late": func(x *Exchange) {
			<-x.Context().Done()
			<-hang
		},
		"/begun": func(x *Exchange) {
			_ = x.Begin(http.StatusOK)
			_ = x.Send([]byte("begun "))
			_, err := io.ReadAll(x.Body())
			_ = x.Send(fmt.Appendf(nil, "%v %v", errors.Is(err, context.DeadlineExceeded), x.Context().Err()))
			x.End()
		},
	}
	opts := Options{BodyTimeout: -1, Calls: func(h Head) Followed {
		path, onLoop := strings.CutPrefix(h.Path(), "/loop")
		serve, ok := serves[path]
		if !ok {
			return Followed{}
		}
		to := Followed{Call: counted{serve, &over}, OnLoop: onLoop}
		if path == "/whole" {
			to.Await = 100 << 10
		}
		if h.Get("x-timeout") != "" {
			to.Timeout = 20 * time.Millisecond
		}
		return to
	}}
	s := startWith(t, setup{opts: opts, handler: func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "handler "+r.URL.Path) }})
	cl := s.client()
	ask := func(path, body string, fields ...string) string {
		r, err := http.NewRequestWithContext(testkit.Context(t), "POST", s.url(path), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(fields); i += 2 {
			r.Header.Set(fields[i], fields[i+1])
		}
		resp, err := cl.Do(r)
		if err != nil {
			return "reset"
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return "reset"
		}
		return fmt.Sprintf("%d %s%s %s%s", resp.StatusCode, resp.Header.Get("X-Early"), resp.Header.Get("X-Why"), b, resp.Trailer.Get("X-Late"))
	}
	big := strings.Repeat("x", 90_000)
	for _, x := range []struct{ path, body, want string }{
		{"/whole", "abc", "201 1 got abc2"}, {"/loop/whole", "abc", "201 1 got abc2"}, {"/whole", "", "201 1 got 2"}, {"/whole", big, "201 1 got " + big + "2"},
		{"/stream", "abc", "200  0abc<nil> 1abc<nil> 2abc<nil> "}, {"/other", "", "200  handler /other"}, {"/nothing", "", "reset"}, {"/half", "", "reset"},
		{"/panic", "", "418 500 the handler failed own words"}, {"/whole", strings.Repeat("x", 100<<10+1), "418 413 the body is over the limit of 102400 bytes own words"},
	} {
		if got := ask(x.path, x.body); got != x.want {
			t.Errorf("%s: %.200q, want %.200q", x.path, got, x.want)
		}
	}
	if got := ask("/late", "", "X-Timeout", "1"); got != "418 504 the request was not answered within 20ms own words" {
		t.Errorf("late: %q", got)
	}
	body, w := io.Pipe()
	r, err := http.NewRequestWithContext(testkit.Context(t), "POST", s.url("/begun"), body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Timeout", "1")
	resp, err := cl.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "begun true context deadline exceeded" {
		t.Errorf("a stream whose time is over: %q, %v", b, err)
	}
	resp.Body.Close()
	w.Close()
	testkit.Eventually(t, "every end but that of the one that hangs", func() bool { return over.Load() == 10 })
}
