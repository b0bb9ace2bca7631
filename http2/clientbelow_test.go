package http2

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// heard is an Answer that writes down what it is given.
type heard struct {
	text  string
	waits bool // for Request.Took
	most  int  // bytes of a body, 0 for any number
	came  chan int
	over  chan error
}

var errEnough = errors.New("enough")

func newHeard() *heard { return &heard{came: make(chan int, 1000), over: make(chan error, 2)} }

func (h *heard) Head(status int, fields []hpack.HeaderField, end bool) error {
	h.text += fmt.Sprint(status, fields, end, " ")
	if status == http.StatusTeapot {
		return errEnough
	}
	return nil
}

func (h *heard) Data(p []byte) (int, error) {
	h.text += string(p)
	h.came <- len(p)
	switch {
	case h.most > 0 && len(h.text) > h.most:
		return 0, errEnough
	case h.waits:
		return 0, nil
	}
	return len(p), nil
}

func (h *heard) Trailer(fields []hpack.HeaderField) { h.text += fmt.Sprint(" ", fields) }

func (h *heard) Over(err error) { h.over <- err }

// begins sends a request to the server at base.
func begins(t *testing.T, tr *Transport, base string, r *Request) *heard {
	t.Helper()
	h := newHeard()
	begin(t, tr, base, r, h)
	return h
}

func begin(t *testing.T, tr *Transport, base string, r *Request, h *heard) {
	t.Helper()
	r.Addr, r.Answer = strings.TrimPrefix(base, "http://"), h
	r.Fields = []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/p"}, {Name: ":authority", Value: "a"}}
	if err := tr.Begin(r); err != nil {
		t.Fatal(err)
	}
}

// ended returns how an Answer has ended, and fails if it has ended twice.
func (h *heard) ended(t *testing.T) error {
	t.Helper()
	err := testkit.Receive(t, "the end", h.over)
	if len(h.over) > 0 {
		t.Errorf("Over was called twice, at last with %v", <-h.over)
	}
	return err
}

// TestRequest: a request below net/http is answered by fields, a body and a trailer, and its memory serves the next one.
func TestRequest(t *testing.T) {
	base := ourServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", "x")
		w.Header().Set("X-Got", fmt.Sprint(r.URL, r.Host, len(r.Header), err))
		w.Write(b)
		w.Header().Set(http.TrailerPrefix+"X-Late", "1")
	}))
	tr := transport(t, &Transport{})
	var r Request
	for i, body := range []string{"", "one", bigText(200000)} {
		r.Body = []byte(body)
		h := begins(t, tr, base, &r)
		if err := h.ended(t); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(h.text, "200 [") || !strings.Contains(h.text, `= "/pa0 <nil>"`) || !strings.Contains(h.text, "false "+body+` [header field "x-late" = "1"]`) {
			t.Errorf("%d: %.300s", i, h.text)
		}
	}
	if s := tr.Stats(); s.Requests != 3 || s.Retried != 0 || r.Retried() {
		t.Errorf("%+v", s)
	}
}

// TestRequestStreams: a body that comes piece by piece goes out as it comes, Send waits for the server's windows, and the
// server waits for Took.
func TestRequestStreams(t *testing.T) {
	taken := make(chan int, 2)
	base := script(t, func(p *peer) {
		id, got := p.takes(), 0
		_ = p.answers(id, false, ":status", "200")
		for n := range taken { // opens the windows by so much
			for n > 0 {
				f := until[*wire.DataFrame](p)
				if f == nil {
					return
				}
				got += len(f.Data())
				n -= len(f.Data())
			}
			_ = p.WriteWindowUpdate(0, 1<<20)
			_ = p.WriteWindowUpdate(id, 1<<20)
		}
		for ended := false; !ended; {
			f := until[*wire.DataFrame](p)
			if f == nil {
				return
			}
			got += len(f.Data())
			ended = f.StreamEnded()
		}
		for range 3 {
			_ = p.WriteData(id, false, make([]byte, 1000))
			for open := 0; open < 1000; { // by the client
				f, err := p.ReadFrame()
				if err != nil {
					return
				}
				if w, ok := f.(*wire.WindowUpdateFrame); ok && w.StreamID == id {
					open += int(w.Increment)
				}
			}
		}
		_ = p.answers(id, true, "x-got", fmt.Sprint(got))
	})
	tr := transport(t, &Transport{BodyBuffer: 1000})
	r, h := Request{Streams: true}, newHeard()
	h.waits = true
	begin(t, tr, base, &r, h)
	if err := r.Send([]byte("x")); err != nil {
		t.Fatal(err)
	}
	taken <- 1
	sent := make(chan error, 1)
	go func() {
		err := r.Send(make([]byte, firstWindow+1<<20+requestBuffer))
		sent <- errors.Join(err, r.Send([]byte("waits")))
	}()
	taken <- firstWindow + 1<<20 - 1 // all that the windows let through; the rest fills the buffer
	if err := testkit.Receive(t, "Send", sent); err != nil {
		t.Error(err)
	}
	close(taken)
	r.CloseSend()
	for range 3 {
		r.Took(testkit.Receive(t, "bytes", h.came))
	}
	if err := h.ended(t); err != nil || !strings.HasSuffix(h.text, fmt.Sprintf(`"x-got" = "%d"]`, 1+firstWindow+1<<20+requestBuffer+5)) {
		t.Errorf("%v, %.100s", err, strings.ReplaceAll(h.text, "\x00", ""))
	}
	if err := r.Send(nil); err == nil {
		t.Error("a Send after the end")
	}
}

// TestRequestStreamsNothing: a body that has ended before anything of the request is sent ends by a DATA frame of its own.
func TestRequestStreamsNothing(t *testing.T) {
	base := script(t, func(p *peer) {
		got := ""
		for {
			switch f := p.next().(type) {
			case nil:
				return
			case *wire.MetaHeadersFrame:
				got += fmt.Sprint("HEADERS ", f.StreamEnded())
			case *wire.DataFrame:
				got += fmt.Sprint(" DATA ", len(f.Data()), f.StreamEnded())
			default:
				continue
			}
			if strings.Contains(got, "true") {
				_ = p.answers(1, true, ":status", "200", "x-got", got)
			}
		}
	})
	r, h := Request{Streams: true}, newHeard()
	begin(t, transport(t, &Transport{}), base, &r, h)
	r.CloseSend()
	if err := h.ended(t); err != nil || !strings.Contains(h.text, `"x-got" = "HEADERS false DATA 0 true"`) {
		t.Errorf("%v, %s", err, h.text)
	}
}

// TestRequestEnds: however a request ends, Over says so once.
func TestRequestEnds(t *testing.T) {
	resets := make(chan wire.ErrCode, 1)
	reset := func(p *peer) {
		if f := until[*wire.RSTStreamFrame](p); f != nil {
			resets <- f.ErrCode
		}
	}
	given := errors.New("given up")
	remote := func(err error) bool {
		var s *StreamError
		return errors.As(err, &s) && s.Remote
	}
	for what, c := range map[string]struct {
		serve   func(p *peer)
		streams bool
		most    int
		ends    func(err error) bool
		retried bool
		cancel  bool // when something of the response has come
		reset   bool
	}{
		"refused": {serve: func(p *peer) {
			_ = p.WriteRSTStream(p.takes(), wire.ErrCodeRefusedStream)
			p.serves("again")
		}, ends: func(err error) bool { return err == nil }, retried: true},
		"refused without end": {serve: func(p *peer) {
			for id := p.takes(); id != 0; id = p.takes() {
				_ = p.WriteRSTStream(id, wire.ErrCodeRefusedStream)
			}
		}, ends: remote, retried: true},
		"a stream is refused": {serve: func(p *peer) {
			_ = p.WriteRSTStream(p.takes(), wire.ErrCodeRefusedStream)
			p.serves("again")
		}, streams: true, ends: remote},
		"goes away": {serve: func(p *peer) {
			if p.n == 0 {
				p.takes()
				_ = p.WriteGoAway(0, wire.ErrCodeNo, nil)
				return
			}
			p.serves("again")
		}, ends: func(err error) bool { return err == nil }, retried: true},
		"reset inside": {serve: func(p *peer) {
			id := p.takes()
			_ = p.answers(id, false, ":status", "200")
			_ = p.WriteRSTStream(id, wire.ErrCodeInternal)
		}, ends: remote},
		"lost inside": {serve: func(p *peer) {
			_ = p.answers(p.takes(), false, ":status", "200")
			_ = p.conn.Close()
		}, ends: func(err error) bool { return errors.Is(err, ErrStale) }},
		"a header that is not wanted": {serve: func(p *peer) {
			_ = p.answers(p.takes(), false, ":status", "418")
			reset(p)
		}, ends: func(err error) bool { return err == errEnough }, reset: true}, //nolint:errorlint // itself
		"bytes that are not wanted": {serve: func(p *peer) {
			id := p.takes()
			_ = p.answers(id, false, ":status", "200")
			_ = p.WriteData(id, false, make([]byte, 100))
			reset(p)
		}, most: 50, ends: func(err error) bool { return err == errEnough }, reset: true}, //nolint:errorlint // itself
		"cancelled": {serve: func(p *peer) {
			id := p.takes()
			_ = p.answers(id, false, ":status", "200")
			_ = p.WriteData(id, false, make([]byte, 100))
			reset(p)
		}, cancel: true, ends: func(err error) bool { return err == given }, reset: true}, //nolint:errorlint // itself
		"a malformed trailer": {serve: func(p *peer) {
			id := p.takes()
			_ = p.answers(id, false, ":status", "200")
			_ = p.answers(id, true, "Up", "1")
			reset(p)
		}, ends: func(err error) bool { return err != nil && !remote(err) }, reset: true},
	} {
		tr := transport(t, &Transport{})
		r, h := Request{Body: []byte("x"), Streams: c.streams}, newHeard()
		h.most = c.most
		begin(t, tr, script(t, c.serve), &r, h)
		if c.cancel {
			testkit.Receive(t, "bytes", h.came)
			r.Cancel(given)
			r.Cancel(errors.New("the second reason"))
		}
		if err := h.ended(t); !c.ends(err) || r.Retried() != c.retried {
			t.Errorf("%s: %v, %v", what, err, r.Retried())
		}
		if c.reset {
			if code := testkit.Receive(t, "a reset", resets); code != wire.ErrCodeCancel && code != wire.ErrCodeProtocol {
				t.Errorf("%s: %v", what, code)
			}
		}
		r.Cancel(given) // changes nothing
		if c.streams && r.Send([]byte("x")) == nil {
			t.Errorf("%s: Send goes on", what)
		}
	}
}

// TestRequestWaits: a request that waits for a stream ends with Cancel and with the Transport, and its Send does.
func TestRequestWaits(t *testing.T) {
	base := script(t, func(p *peer) { // takes the only request and keeps it
		p.takes()
		until[wire.Frame](p)
	}, wire.Setting{ID: wire.SettingMaxConcurrentStreams, Val: 1})
	tr := transport(t, &Transport{MaxConnsPerHost: 1})
	var first, second, third Request
	second.Streams, third.Streams = true, true
	ends := begins(t, tr, base, &first)
	testkit.Eventually(t, "the first to be sent", func() bool { return tr.Stats().Streams == 1 })
	waits, closes := begins(t, tr, base, &second), begins(t, tr, base, &third)
	given := errors.New("given up")
	second.Cancel(given)
	if err := waits.ended(t); err != given { //nolint:errorlint // itself
		t.Error(err)
	}
	if err := second.Send(make([]byte, 1)); err != given { //nolint:errorlint // itself
		t.Error(err)
	}
	if err := third.Send(make([]byte, requestBuffer)); err != nil {
		t.Error(err)
	}
	sent := make(chan error, 1)
	go func() { sent <- third.Send([]byte("x")) }()
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	for _, h := range []*heard{ends, closes} {
		if err := h.ended(t); !errors.Is(err, ErrTransportClosed) {
			t.Error(err)
		}
	}
	if err := testkit.Receive(t, "Send", sent); !errors.Is(err, ErrTransportClosed) {
		t.Error(err)
	}
}

// TestRequestRefused: what cannot begin is told at once.
func TestRequestRefused(t *testing.T) {
	tr := transport(t, &Transport{TLS: &tls.Config{Renegotiation: tls.RenegotiateFreelyAsClient}})
	if err := tr.Begin(&Request{Secure: true}); err == nil || tr.Stats().Open != 0 {
		t.Errorf("a config that a client cannot use: %v", err)
	}
	bad := &Transport{MaxConns: -1}
	if err := bad.Begin(&Request{}); err == nil {
		t.Error("a Transport that makes no sense")
	}
	group := &eddy.Group{Loops: 1}
	if err := group.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = group.Close() })
	shared, on := transport(t, &Transport{Group: group}), make(chan error, 1)
	if err := group.Loop(0).Post(func() { on <- shared.Begin(&Request{Addr: "127.0.0.1:1"}) }); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "Begin", on); !errors.Is(err, eddy.ErrOnLoop) {
		t.Error(err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	h := begins(t, tr, "http://a:1", new(Request))
	if err := h.ended(t); !errors.Is(err, ErrTransportClosed) {
		t.Error(err)
	}
}
