package http1

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// stuckFile is a server with one connection, which does not read and has asked for a file far larger than the queue. The
// handler waits in ReadFrom.
func stuckFile(t *testing.T) (s *server, c *raw, ended <-chan error, name string, data []byte) {
	t.Helper()
	sendsFiles(t)
	const size = 8 << 20
	name, data = tempFile(t, size)
	result := make(chan error, 1)
	s = startWith(t, setup{
		clock: true, narrow: true, opts: Options{WriteTimeout: timeout},
		marks: eddy.Watermarks{Low: 64 << 10, High: 256 << 10, Max: 1 << 20},
		handler: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/file" {
				hello(w, r)
				return
			}
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
				return
			}
			w.Header().Set("Content-Length", strconv.Itoa(size))
			n, err := io.Copy(w, f)
			if (n == size) != (err == nil) {
				t.Errorf("%d bytes and %v", n, err)
			}
			_ = f.Close()
			result <- err
		},
	})
	c = s.dial()
	if err := c.SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	c.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Eventually(t, "the writer to wait", func() bool {
		var pauses uint64
		for _, l := range s.srv.Stats().Loops {
			pauses += l.OutboundPauses
		}
		return pauses > 0
	})
	return s, c, result, name, data
}

// A client that does not read holds its handler in ReadFrom and no other one. When the client reads it gets everything.
func TestReadFromSlowReader(t *testing.T) {
	s, c, ended, name, data := stuckFile(t)
	other := s.dial()
	other.send(keepGet)
	if _, body := other.response("GET"); body != "hello" {
		t.Fatalf("%q", body)
	}
	select {
	case err := <-ended:
		t.Fatalf("the handler did not wait: %v", err)
	default:
	}
	if _, body := c.response("GET"); body != string(data) {
		t.Errorf("%d bytes, or changed ones", len(body))
	}
	if err := testkit.Receive(t, "the handler", ended); err != nil {
		t.Error(err)
	}
	awaitOpen(t, name, 0)
}

// A client that never reads loses its connection at the write deadline, and a client that goes away loses it at once. The
// handler gets the error, and the file is closed.
func TestReadFromEnds(t *testing.T) {
	for name, end := range map[string]func(s *server, c *raw){
		"deadline": func(s *server, _ *raw) {
			testkit.Eventually(s.t, "the deadline", func() bool { // the kernel may have taken more, which puts it off
				s.clock.Advance(timeout)
				return s.closed(eddy.CloseWriteTimeout) == 1
			})
		},
		"client gone": func(_ *server, c *raw) {
			_ = c.SetLinger(0)
			_ = c.Close()
		},
		"server closed": func(s *server, _ *raw) { _ = s.srv.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s, c, ended, file, _ := stuckFile(t)
			end(s, c)
			if err := testkit.Receive(t, "the handler", ended); err == nil {
				t.Error("the handler has written everything")
			}
			awaitOpen(t, file, 0)
		})
	}
}

// The handler's own write deadline holds for files. Bytes written afterwards do not take the place of the file.
func TestReadFromWriteDeadline(t *testing.T) {
	sendsFiles(t)
	name, data := tempFile(t, 1<<20)
	ended := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, _ *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = f.Close() }()
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.(http.Flusher).Flush()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Hour))
		n, err := io.Copy(w, f)
		if n != 0 || opened(name) > 1 {
			t.Errorf("%d bytes, and %d descriptors for the file", n, opened(name))
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		if n, err := w.Write(data[:10_000]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("then %d bytes, %v", n, err)
		}
		ended <- err
	})
	c := s.dial()
	c.send(keepGet)
	if err := testkit.Receive(t, "the handler", ended); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	c.rest()
	awaitOpen(t, name, 0)
}

// A file shorter than the Content-Length, from the start or because it was cut while queued, ends the connection, so that
// the client notices.
func TestReadFromShortFile(t *testing.T) {
	sendsFiles(t)
	const size = 1 << 20
	for name, tt := range map[string]struct {
		promised int
		cut      bool
		reason   eddy.CloseReason
	}{
		"short": {size + 10, false, eddy.CloseNormal},
		"cut":   {size, true, eddy.CloseInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			file, data := tempFile(t, size)
			ended := make(chan error, 1)
			s := startWith(t, setup{narrow: true, marks: eddy.Watermarks{Low: size / 2, High: size, Max: 4 * size}, handler: func(w http.ResponseWriter, _ *http.Request) {
				f, err := os.Open(file)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = f.Close() }()
				w.Header().Set("Content-Length", strconv.Itoa(tt.promised))
				n, err := io.Copy(w, f)
				if n != size {
					t.Errorf("%d bytes", n)
				}
				if tt.cut {
					err = errors.Join(err, os.Truncate(file, 0))
				}
				ended <- err
			}})
			c := s.dial()
			if err := c.SetReadBuffer(64 << 10); err != nil {
				t.Fatal(err)
			}
			c.send(keepGet)
			if err := testkit.Receive(t, "the handler", ended); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(c.br, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if !errors.Is(err, io.ErrUnexpectedEOF) && !tt.cut || err == nil || !bytes.HasPrefix(data, got) || (len(got) < size) != tt.cut {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			_ = c.Close()
			s.waitClosed(tt.reason, 1)
			awaitOpen(t, file, 0)
		})
	}
}
