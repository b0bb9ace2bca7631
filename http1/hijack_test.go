package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// A hijacked connection is a net.Conn; what the client sent behind its request is read from it.
func TestHijack(t *testing.T) {
	after := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, werr := io.WriteString(w, "late")
		after <- werr
		if c.RemoteAddr().String() != r.RemoteAddr || c.LocalAddr().String() != r.Context().Value(http.LocalAddrContextKey).(net.Addr).String() {
			t.Errorf("addresses %v, %v", c.RemoteAddr(), c.LocalAddr())
		}
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				break
			}
			_, _ = rw.WriteString(strings.ToUpper(line))
			_ = rw.Flush()
		}
		_, _ = io.WriteString(c, "bye\n"+big(200000))
		_ = c.Close()
	})
	c := s.dial()
	c.send(keepGet + "first\nsec")
	if got, err := c.br.ReadString('\n'); got != "FIRST\n" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := <-after; !errors.Is(err, http.ErrHijacked) {
		t.Errorf("writing to the ResponseWriter: %v", err)
	}
	c.send("ond\n")
	if got, err := c.br.ReadString('\n'); got != "SECOND\n" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := c.rest(); got != "bye\n"+big(200000) {
		t.Errorf("the end is %d bytes: %.20q", len(got), got)
	}
	s.waitClosed(eddy.CloseNormal, 1)
}

// A draining server waits for a handler that holds a connection. At the deadline the connection is cut.
func TestHijackAndDrain(t *testing.T) {
	for _, closes := range []bool{true, false} {
		t.Run(fmt.Sprintf("closes=%v", closes), func(t *testing.T) {
			taken, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			s := start(t, func(w http.ResponseWriter, _ *http.Request) {
				c, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
				}
				close(taken)
				if closes {
					<-goOn
					_, _ = io.WriteString(c, "done")
					_ = c.Close()
				}
				_, err = c.Read(make([]byte, 1))
				ended <- err
			})
			c := s.dial()
			c.send(keepGet)
			<-taken
			ctx, cancel := testkit.Context(t), func() {}
			if !closes {
				ctx, cancel = context.WithDeadline(ctx, time.Now())
			}
			defer cancel()
			report := make(chan eddy.DrainReport, 1)
			go func() {
				r, _ := s.srv.Shutdown(ctx)
				report <- r
			}()
			want, text := eddy.DrainReport{Forced: 1, Dropped: 1}, ""
			if closes {
				testkit.Eventually(t, "the drain", func() bool {
					late, err := net.Dial("tcp", s.addr)
					if err == nil {
						_ = late.Close()
					}
					return err != nil
				})
				close(goOn)
				want, text = eddy.DrainReport{Drained: 1}, "done"
			}
			if got, _ := io.ReadAll(c.br); string(got) != text {
				t.Errorf("the client got %q", got)
			}
			_ = c.Close()
			r := <-report
			r.Drained = min(r.Drained, want.Drained) // those that dialled late are drained too
			if r != want {
				t.Errorf("%+v, want %+v", r, want)
			}
			if err := <-ended; err == nil {
				t.Error("the handler reads on")
			}
		})
	}
}

func TestHijackDeadlinesAndBackpressure(t *testing.T) {
	result := make(chan error, 8)
	s := startWith(t, setup{marks: eddy.Watermarks{Low: 64 << 10, High: 256 << 10, Max: 1 << 20}, opts: Options{BodyBuffer: 8 << 10},
		handler: func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			_ = c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
			_, err = c.Read(make([]byte, 1))
			result <- err
			_ = c.SetReadDeadline(time.Now().Add(-time.Second))
			_, err = c.Read(make([]byte, 1))
			result <- err
			_ = c.SetDeadline(time.Time{})
			_, err = io.WriteString(c, "go")
			result <- err
			n, err := io.CopyN(io.Discard, c, 500000)
			if n != 500000 {
				t.Errorf("read %d bytes, %v", n, err)
			}
			result <- err
			_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			for err == nil {
				_, err = io.WriteString(c, big(100000))
			}
			result <- err
			_, err = io.WriteString(c, "more")
			result <- err
		}})
	c := s.dial()
	c.send(keepGet)
	for range 2 {
		if err := <-result; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("reading too long: %v", err)
		}
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c.br, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	c.send(big(500000))
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-result; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("writing to a client that does not read: %v", err)
		}
	}
}

func TestHijackRefusals(t *testing.T) {
	errs := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/read" {
			_, _ = io.ReadAll(r.Body)
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _, again := http.NewResponseController(w).Hijack()
			err = again
			_ = c.Close()
		}
		errs <- err
	})
	c := s.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx")
	if err := <-errs; err == nil || errors.Is(err, http.ErrHijacked) {
		t.Errorf("in the middle of a body: %v", err)
	}
	c = s.dial()
	c.send("POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	if err := <-errs; !errors.Is(err, http.ErrHijacked) {
		t.Errorf("twice: %v", err)
	}
	c.rest()
}

// Libraries for net/http that hijack work here: an independent WebSocket server, and a reverse proxy in front of it.
func TestHijackingLibraries(t *testing.T) {
	echoSocket := func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		for {
			op, data, err := c.Read(context.Background())
			if err != nil {
				return
			}
			if err := c.Write(context.Background(), op, data); err != nil {
				return
			}
		}
	}
	ours := start(t, echoSocket)
	theirs := httptest.NewServer(http.HandlerFunc(echoSocket))
	t.Cleanup(theirs.Close)
	target, err := url.Parse(theirs.URL)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = tr
	between := start(t, proxy.ServeHTTP)
	for name, addr := range map[string]string{"direct": ours.addr, "behind a proxy": between.addr} {
		ctx := testkit.Context(t)
		c, _, err := websocket.Dial(ctx, "ws://"+addr, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range 10 {
			want := big(i * 3000)
			if err := c.Write(ctx, websocket.MessageText, []byte(want)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, got, err := c.Read(ctx); err != nil || string(got) != want {
				t.Fatalf("%s: %d bytes, %v", name, len(got), err)
			}
		}
		_ = c.Close(websocket.StatusNormalClosure, "")
	}
}

// CONNECT reaches the handler with the authority it names, so that a proxy can be written with Hijack.
func TestConnect(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Method+" "+r.Host+" "+r.URL.Host+" "+r.URL.Path)
	})
	c := s.dial()
	c.send("CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n" + keepGet) // into the tunnel, not for this server
	head, tunnel, _ := strings.Cut(c.rest(), "\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.1 200 ") || strings.Contains(head, "Length") || strings.Contains(head, "chunked") || tunnel != "CONNECT b:443 b:443 " {
		t.Errorf("%q, then %q", head, tunnel)
	}
}

// A handler that answers 101 and returns leaves nobody on the connection.
func TestSwitchingWithoutTaker(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
	c := s.dial()
	c.send(keepGet)
	if got := c.rest(); !strings.HasPrefix(got, "HTTP/1.1 101 ") || !strings.Contains(got, "\r\nConnection: Upgrade\r\n") || !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("%q", got)
	}
}
