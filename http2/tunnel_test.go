package http2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	wire "golang.org/x/net/http2"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/httpserve"
	"github.com/go-eddy/eddy/internal/testkit"
)

// lines is the handler of a tunnel that takes lines. It notes what happens to it.
type lines struct {
	httpserve.Tunnel
	line   func(l *lines, line string)
	open   func(l *lines)
	events chan string
	closed atomic.Int32
}

func (l *lines) Open() {
	l.note("open")
	if l.open != nil {
		l.open(l)
	}
}

func (l *lines) Decode(view []byte) int {
	n := bytes.IndexByte(view, '\n') + 1
	if n > 0 {
		l.line(l, string(view[:n-1]))
	}
	return n
}

func (l *lines) note(what string) { l.events <- what }

func (l *lines) Writability(writable bool) { l.note(fmt.Sprintf("writable %t", writable)) }
func (l *lines) InputClosed()              { l.note("input closed") }
func (l *lines) Drain()                    { l.note("drain") }
func (l *lines) Failed() {
	l.note("failed")
	_ = l.Write([]byte("sorry"))
}

func (l *lines) Closed() {
	l.closed.Add(1)
	l.note("closed: " + l.CloseError().Reason.String())
}

// tunnels is a server whose requests with a :protocol become tunnels of lines. Others are answered hello.
type tunnels struct {
	*server
	got  chan *lines
	errs chan error
}

func startTunnels(t *testing.T, c setup, line func(l *lines, line string)) *tunnels {
	t.Helper()
	s := &tunnels{got: make(chan *lines, 100), errs: make(chan error, 100)}
	c.opts.Connect = true
	c.handler = func(w http.ResponseWriter, r *http.Request) {
		if r.Header[":protocol"] == nil {
			hello(w, r)
			return
		}
		l := &lines{line: line, events: make(chan string, 10000)}
		if r.URL.Path == "/panics" {
			l.open = func(*lines) { panic("in Open") }
		}
		s.got <- l
		s.errs <- w.(httpserve.Tunneler).Tunnel(http.Header{"Name": {"value"}, "Bad name": {"x"}}, func(t httpserve.Tunnel) httpserve.TunnelHandler {
			l.Tunnel = t
			return l
		})
	}
	s.server = startWith(t, c)
	return s
}

func echoLine(l *lines, line string) { _ = l.Write([]byte(line + "!")) }

func connectTo(path string) []string {
	return []string{":method: CONNECT", ":protocol: lines", ":scheme: http", ":authority: a", ":path: " + path}
}

// tunnel opens a tunnel and returns its handler.
func (s *tunnels) tunnel(r *raw, id uint32) *lines {
	s.t.Helper()
	r.request(id, false, connectTo("/")...)
	l := testkit.Receive(s.t, "the request", s.got)
	if err := testkit.Receive(s.t, "the tunnel", s.errs); err != nil {
		s.t.Fatal(err)
	}
	l.want(s.t, "open")
	next := r.next()
	if h, ok := next.(*wire.HeadersFrame); !ok || h.StreamID != id || h.StreamEnded() {
		s.t.Fatalf("%v", next)
	} else if f := r.fieldsOf(h.HeaderBlockFragment()); f[":status"] != "200" || f["name"] != "value" || len(f) != 3 {
		s.t.Fatalf("%v", f)
	}
	return l
}

func (l *lines) want(t *testing.T, events ...string) {
	t.Helper()
	for _, want := range events {
		if got := testkit.Receive(t, want, l.events); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

// wantData reads DATA frames until text has come on the stream.
func (r *raw) wantData(id uint32, text string) {
	r.t.Helper()
	got := ""
	for len(got) < len(text) {
		d := r.nextData()
		if d.StreamID != id {
			r.t.Fatalf("DATA on stream %d", d.StreamID)
		}
		got += string(d.Data())
	}
	if got != text {
		r.t.Fatalf("%.80q, want %.80q", got, text)
	}
}

// wantEnd reads the rest of stream id, and ends it, too.
func (r *raw) wantEnd(id uint32, rest string) {
	r.t.Helper()
	got := ""
	for ended := false; !ended; {
		d := r.nextData()
		if d.StreamID != id {
			r.t.Fatalf("DATA on stream %d", d.StreamID)
		}
		got += string(d.Data())
		ended = d.StreamEnded()
	}
	if got != rest {
		r.t.Fatalf("%q, want %q", got, rest)
	}
	r.data(id, true, "")
}

// wantReset reads until stream id is reset.
func (r *raw) wantReset(id uint32, code wire.ErrCode) {
	r.t.Helper()
	for {
		if f, ok := r.next().(*wire.RSTStreamFrame); ok {
			if f.StreamID != id || f.ErrCode != code {
				r.t.Fatalf("%v", f)
			}
			return
		}
	}
}

// A tunnel passes bytes both ways, those before its answer included, and ends in order.
func TestTunnel(t *testing.T) {
	s := startTunnels(t, setup{}, echoLine)
	r := s.dial()
	r.request(1, false, connectTo("/")...)
	r.data(1, false, "one\ntw")
	l := testkit.Receive(t, "the request", s.got)
	r.wantData(1, "one!")
	r.data(1, false, "o\n")
	r.wantData(1, "two!")
	r.send(func() error { return r.WriteDataPadded(1, false, []byte("three\n\n"), make([]byte, 10)) })
	r.wantData(1, "three!!")
	r.get(3, "/") // its neighbours go on
	if a := r.answer(3); a.body != "hello" {
		t.Fatalf("%+v", a)
	}
	r.data(1, true, "last\nrest")
	r.wantData(1, "last!")
	l.want(t, "open", "input closed")
	shared := buf.NewSharedPool(1<<20, nil)
	for _, msg := range []any{[][]byte{[]byte("parts"), []byte(" of")}, shared.Copy([]byte(" bytes"))} {
		if err := l.Write(msg); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Write("a string"); err == nil || !strings.Contains(err.Error(), "a string") && !strings.Contains(err.Error(), "string") {
		t.Error(err)
	}
	l.CloseAfterFlush(eddy.CloseNormal)
	if err := l.Write([]byte("late")); !errors.Is(err, eddy.ErrClosed) {
		t.Error(err)
	}
	if a := r.answer(1); a.body != "parts of bytes" || a.reset != nil {
		t.Errorf("%+v", a)
	}
	l.want(t, "closed: "+eddy.CloseNormal.String())
	s.settles()
	if n := shared.Live(); n != 0 {
		t.Errorf("%d buffers are not given back", n)
	}
}

// What asks for no tunnel gets none, and a writer that has given one away takes nothing more.
func TestTunnelRefused(t *testing.T) {
	got := make(chan string, 100)
	none := func(httpserve.Tunnel) httpserve.TunnelHandler { panic("not called") }
	s := startWith(t, setup{handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			w.WriteHeader(http.StatusAccepted)
			got <- w.(httpserve.Tunneler).Tunnel(nil, none).Error()
			return
		}
		if err := w.(httpserve.Tunneler).Tunnel(nil, none); !errors.Is(err, http.ErrNotSupported) {
			got <- err.Error()
		}
		w.WriteHeader(http.StatusNotImplemented)
	}})
	r := s.dial()
	r.request(1, true, headersOf("POST", "/")...)
	if a := r.answer(1); a.status() != "501" {
		t.Errorf("%+v", a)
	}
	r.request(3, true, connectTo("/")...) // ended at once
	if a := r.answer(3); a.status() != "501" {
		t.Errorf("%+v", a)
	}
	r.request(5, false, connectTo("/begun")...)
	if a := r.answer(5); a.status() != "202" {
		t.Errorf("%+v", a)
	}
	if text := testkit.Receive(t, "an error", got); text != "http2: a tunnel after the response has begun" {
		t.Error(text)
	}

	again := make(chan error, 3)
	s = startWith(t, setup{opts: Options{Connect: true}, handler: func(w http.ResponseWriter, r *http.Request) {
		l := &lines{line: echoLine, events: make(chan string, 100)}
		make := func(t httpserve.Tunnel) httpserve.TunnelHandler {
			l.Tunnel = t
			return l
		}
		again <- w.(httpserve.Tunneler).Tunnel(nil, make)
		again <- w.(httpserve.Tunneler).Tunnel(nil, make)
		_, err := w.Write([]byte("more"))
		again <- err
	}})
	r = s.dial()
	r.request(1, false, connectTo("/")...)
	r.data(1, false, "still there\n")
	r.wantData(1, "still there!")
	if err := <-again; err != nil {
		t.Error(err)
	}
	if err := <-again; err == nil {
		t.Error("a second tunnel")
	}
	if err := <-again; !errors.Is(err, http.ErrHijacked) {
		t.Error(err)
	}
}

// The setting that allows tunnels is sent where they are wanted.
func TestTunnelSetting(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := startWith(t, setup{opts: Options{Connect: on}, handler: hello})
		r := s.connect()
		f, ok := r.next().(*wire.SettingsFrame)
		if !ok {
			t.Fatal("no SETTINGS")
		}
		if v, told := f.Value(wire.SettingEnableConnectProtocol); told != on || on && v != 1 {
			t.Errorf("with Connect %t: %d, %t", on, v, told)
		}
	}
}

// A handler that pauses stops its client, and nobody else.
func TestTunnelPauses(t *testing.T) {
	const window = 64 << 10
	s := startTunnels(t, setup{opts: Options{BodyBuffer: window}}, func(l *lines, line string) {
		if line == "pause" {
			l.PauseRead()
			l.note("paused")
		} else if line == "end" {
			_ = l.Write([]byte("end"))
		}
	})
	r := s.dial()
	l := s.tunnel(r, 1)
	r.data(1, false, "pause\n")
	l.want(t, "paused")
	line := strings.Repeat("x", 999) + "\n"
	sent := len("pause\n")
	for ; sent+len(line) <= window; sent += len(line) {
		r.data(1, false, line)
	}
	r.get(3, "/")
	if a := r.answer(3); a.body != "hello" {
		t.Fatalf("%+v", a)
	}
	if n := enginetest.Stats(t, s.srv).Memory.Inbound; n < int64(sent-100) {
		t.Errorf("%d bytes are counted of %d", n, sent)
	}
	l.ResumeRead()
	for { // the window is given back
		if f, ok := r.next().(*wire.WindowUpdateFrame); ok && f.StreamID == 1 {
			break
		}
	}
	r.data(1, true, "end\n")
	r.wantData(1, "end")
	l.want(t, "input closed")
	l.CloseAfterFlush(eddy.CloseNormal)
	l.want(t, "closed: "+eddy.CloseNormal.String())
	s.settles()
}

// The decoder of a tunnel takes turns with the rest of its loop.
func TestTunnelTakesTurns(t *testing.T) {
	var took, turn atomic.Int64
	s := startTunnels(t, setup{}, func(l *lines, line string) {
		if took.Add(1) == 1 {
			_ = l.Conn().Loop().Post(func() { turn.Store(took.Load()) })
		}
		if line == "end" {
			l.note("end")
		}
	})
	r := s.dial()
	l := s.tunnel(r, 1)
	r.data(1, false, strings.Repeat("\n", 1000)+"end\n")
	l.want(t, "end")
	if n := turn.Load(); n != tunnelSteps {
		t.Errorf("the loop's other work came after %d steps, want %d", n, tunnelSteps)
	}
}

var tunnelMarks = eddy.Watermarks{Low: 1000, High: 4000, Max: 10000} //nolint:gochecknoglobals // a table

// A client that opens no window fills the queue of its tunnel, and only that. Writers and the handler are told to wait, and to
// go on, and nothing is read meanwhile.
func TestTunnelQueue(t *testing.T) {
	s := startTunnels(t, setup{adjust: func(srv *eddy.Server) { srv.Watermarks, srv.Overflow = tunnelMarks, eddy.OverflowReject }}, func(l *lines, line string) { l.note(line) })
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	l := s.tunnel(r, 1)
	if !l.Writable() || l.WriteContext(t.Context(), []byte(big(3000))) != nil || !l.Writable() || l.Write([]byte(big(1000))) != nil {
		t.Fatal("below the high watermark")
	}
	l.want(t, "writable false")
	if l.Writable() || l.QueuedBytes() != 4000 {
		t.Errorf("writable with %d bytes", l.QueuedBytes())
	}
	r.data(1, false, "unheard\n")
	if err := l.Write([]byte(big(6001))); !errors.Is(err, eddy.ErrBackpressure) || !strings.Contains(err.Error(), "4000 bytes queued on the stream, 6001 more, limit 10000") {
		t.Error(err)
	}
	short, cancel := context.WithCancel(t.Context())
	results := make(chan error, 3)
	go func() { results <- l.WriteContext(short, []byte("never")) }()
	cancel()
	if err := testkit.Receive(t, "the end of the wait", results); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for range 2 {
		go func() { results <- l.WriteContext(t.Context(), []byte("waited")) }()
	}
	enginetest.Barrier(t, s.srv)
	select {
	case e := <-l.events:
		t.Fatalf("%s while the queue is full", e)
	case err := <-results:
		t.Fatalf("a writer went on: %v", err)
	default:
	}
	r.send(func() error { return r.WriteWindowUpdate(1, 2999) }) // to 1001: not yet
	r.wantData(1, big(3000)[:2999])
	enginetest.Barrier(t, s.srv)
	if l.Writable() || len(l.events) > 0 || len(results) > 0 {
		t.Error("writable above the low watermark")
	}
	r.send(func() error { return r.WriteWindowUpdate(1, 1) })
	for range 2 {
		if err := testkit.Receive(t, "a writer", results); err != nil {
			t.Error(err)
		}
	}
	l.want(t, "writable true", "unheard")
	if err := l.Conn().Post(func() { results <- l.WriteContext(t.Context(), nil) }); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the loop", results); !errors.Is(err, eddy.ErrOnLoop) {
		t.Error(err)
	}
	if err := l.Write([]byte(big(8000))); err != nil {
		t.Fatal(err)
	}
	l.want(t, "writable false")
	for range 2 {
		go func() { results <- l.WriteContext(t.Context(), []byte("lost")) }()
	}
	_ = r.conn.Close()
	for range 2 {
		if err := testkit.Receive(t, "a writer", results); !errors.Is(err, eddy.ErrClosed) {
			t.Error(err)
		}
	}
	if e := <-l.events; !strings.HasPrefix(e, "closed: ") {
		t.Error(e)
	}
	s.settles()
}

// Beyond the bound a message ends the tunnel, unless the server or a class says otherwise; the connection goes on.
func TestTunnelOverflow(t *testing.T) {
	s := startTunnels(t, setup{adjust: func(srv *eddy.Server) { srv.Watermarks = tunnelMarks }}, echoLine)
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	for i, write := range []func(l *lines, p []byte) error{
		func(l *lines, p []byte) error { return l.Write(p) },
		func(l *lines, p []byte) error { return l.WriteClass(&eddy.MessageClass{Name: "close"}, p) },
	} {
		id := uint32(2*i + 1)
		l := s.tunnel(r, id)
		for n := range 2 {
			if err := write(l, []byte(big(5000))); err != nil {
				t.Fatalf("%d: %v", n, err)
			}
		}
		if err := write(l, []byte("x")); !errors.Is(err, eddy.ErrBackpressure) {
			t.Error(err)
		}
		r.wantReset(id, wire.ErrCodeCancel)
		if e := testkit.Receive(t, "an event", l.events); e == "writable false" { // told, if the end has not come first
			l.want(t, "closed: "+eddy.CloseBackpressureLimit.String())
		} else if e != "closed: "+eddy.CloseBackpressureLimit.String() {
			t.Error(e)
		}
	}
	s.settles()
}

// Bytes that came before the tunnel are given back to the client's window once.
func TestTunnelWindow(t *testing.T) {
	s := startTunnels(t, setup{opts: Options{BodyBuffer: 64 << 10}}, echoLine)
	r := s.dial()
	r.request(1, false, connectTo("/")...)
	line := strings.Repeat("x", 9999) + "\n"
	sent, echoed, given := 0, 0, 0
	take := func() {
		switch f := r.next().(type) {
		case *wire.DataFrame:
			echoed += len(f.Data())
			r.send(func() error { return r.WriteWindowUpdate(1, uint32(len(f.Data()))) })
			r.send(func() error { return r.WriteWindowUpdate(0, uint32(len(f.Data()))) })
		case *wire.WindowUpdateFrame:
			if f.StreamID == 1 {
				given += int(f.Increment)
			}
		case *wire.HeadersFrame:
			r.fieldsOf(f.HeaderBlockFragment())
		}
	}
	for i := range 14 {
		r.data(1, false, line)
		sent += len(line)
		for i >= 4 && echoed < sent-4*len(line) {
			take()
		}
	}
	for echoed < sent || given < sent-64<<10 { // it comes, or the test ends by its time
		take()
	}
	if given > sent || echoed > sent {
		t.Errorf("%d bytes of the window are given back and %d echoed for %d", given, echoed, sent)
	}
}

// A handler is told of room although nobody else waits for it.
func TestTunnelRoom(t *testing.T) {
	s := startTunnels(t, setup{adjust: func(srv *eddy.Server) { srv.Watermarks = tunnelMarks }}, echoLine)
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	l := s.tunnel(r, 1)
	if err := l.Write([]byte(big(5000))); err != nil {
		t.Fatal(err)
	}
	l.want(t, "writable false")
	r.send(func() error { return r.WriteWindowUpdate(1, 5000) })
	l.want(t, "writable true")
}

// Memory that is counted is released, whatever becomes of the message, and memory of others is left alone.
func TestTunnelMemory(t *testing.T) {
	s := startTunnels(t, setup{adjust: func(srv *eddy.Server) { srv.Watermarks, srv.Overflow = tunnelMarks, eddy.OverflowReject }}, echoLine)
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	l := s.tunnel(r, 1)
	shared := buf.NewSharedPool(1<<20, nil)
	if err := l.Write(shared.Copy([]byte(big(5000)))); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(shared.Copy([]byte(big(6000)))); !errors.Is(err, eddy.ErrBackpressure) {
		t.Error(err)
	}
	if n := shared.Live(); n != 1 {
		t.Errorf("%d messages, want the one that waits", n)
	}
	l.CloseWith(eddy.CloseNormal, nil)
	r.wantReset(1, wire.ErrCodeCancel)
	if err := l.Write(shared.Copy([]byte("late"))); !errors.Is(err, eddy.ErrClosed) {
		t.Error(err)
	}
	if n := shared.Live(); n != 0 {
		t.Errorf("%d messages are left", n)
	}

	var o outgoing
	o.init(1 << 20)
	whole := []byte(big(maxFrame))
	o.queue(nil, whole[:maxFrame-10], maxFrame-10)
	o.queue(nil, []byte("more"), 4)
	if string(whole) != big(maxFrame) {
		t.Error("a message is written behind another one, into memory of its owner")
	}
	o.next(maxFrame)
	o.next(maxFrame)
	o.queue(nil, shared.Copy([]byte(big(maxFrame))), maxFrame)
	if p := o.next(maxFrame); !p.copied || p.last == nil || p.last.shared == nil {
		t.Error("memory is sent by reference, and given back before it was sent")
	} else {
		p.last.release()
	}
}

// Classes drop whole messages of which nothing was sent.
func TestTunnelClasses(t *testing.T) {
	s := startTunnels(t, setup{adjust: func(srv *eddy.Server) { srv.Watermarks = eddy.Watermarks{Low: 1, High: 20, Max: 100} }}, echoLine)
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 2})
	for i, tt := range []struct {
		class    *eddy.MessageClass
		want     string
		dropped  uint64
		rejected uint64
	}{
		{&eddy.MessageClass{Policy: eddy.OverflowDropNewest, MaxMessages: 2}, "0000-1111-2222-+", 4, 0},
		{&eddy.MessageClass{Policy: eddy.OverflowDropOldest, MaxMessages: 2}, "0000-+5555-6666-", 4, 0},
		{&eddy.MessageClass{Policy: eddy.OverflowDropOldest, MaxBytes: 11}, "0000-+5555-6666-", 4, 0},
		{&eddy.MessageClass{Policy: eddy.OverflowKeepLatest, MaxMessages: 1}, "0000-+6666-", 5, 0},
		{&eddy.MessageClass{Policy: eddy.OverflowReject, MaxMessages: 2}, "0000-1111-2222-+", 0, 4},
	} {
		id := uint32(2*i + 1)
		l := s.tunnel(r, id)
		tt.class.Name = "class"
		for n := range 7 {
			msg := any([]byte(strings.Repeat(fmt.Sprint(n), 4) + "-"))
			if n%2 == 1 {
				msg = [][]byte{[]byte(strings.Repeat(fmt.Sprint(n), 4)), []byte("-")}
			}
			err := l.WriteClass(tt.class, msg)
			if refused := (*eddy.ClassError)(nil); err != nil && (tt.rejected == 0 || !errors.As(err, &refused)) {
				t.Fatal(err)
			}
			if n == 0 {
				r.wantData(id, "00") // it has begun
			}
			if n == 2 {
				if err := l.Write([]byte("+")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if st := tt.class.Stats(); st.Dropped != tt.dropped || st.Rejected != tt.rejected {
			t.Errorf("%d: %+v", i, st)
		}
		r.send(func() error { return r.WriteWindowUpdate(id, 1000) })
		r.wantData(id, tt.want[2:])
		l.CloseAfterFlush(eddy.CloseNormal)
		r.wantEnd(id, "")
	}
	l := s.tunnel(r, 21)
	if err := l.WriteClass(&eddy.MessageClass{Name: "senseless", Policy: 99}, []byte("x")); err == nil || l.CloseError() != nil {
		t.Error(err)
	}
}

// A drop that makes room lets writers go on.
func TestTunnelDropMakesRoom(t *testing.T) {
	s := startTunnels(t, setup{adjust: func(srv *eddy.Server) { srv.Watermarks = tunnelMarks }}, echoLine)
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	l := s.tunnel(r, 1)
	class := &eddy.MessageClass{Name: "latest", Policy: eddy.OverflowKeepLatest, MaxMessages: 1}
	shared := buf.NewSharedPool(1<<20, nil)
	if err := l.WriteClass(class, shared.Copy([]byte(big(5000)))); err != nil {
		t.Fatal(err)
	}
	l.want(t, "writable false")
	result := make(chan error, 1)
	go func() { result <- l.WriteContext(t.Context(), []byte("waits")) }()
	if err := l.WriteClass(class, []byte("short")); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the writer", result); err != nil {
		t.Error(err)
	}
	l.want(t, "writable true")
	if shared.Live() != 0 {
		t.Error("a dropped message is not given back")
	}
}

// A handler that panics ends its own tunnel, after a last word, and is reported.
func TestTunnelPanics(t *testing.T) {
	var log testkit.Output
	s := startTunnels(t, setup{adjust: func(srv *eddy.Server) { srv.Logger = slog.New(slog.NewTextHandler(&log, nil)) }}, func(l *lines, line string) {
		if line == "panic" {
			panic("in Decode")
		}
		echoLine(l, line)
	})
	r := s.dial()
	l, other := s.tunnel(r, 1), s.tunnel(r, 3)
	r.data(1, false, "panic\nunheard\n")
	r.wantEnd(1, "sorry")
	l.want(t, "failed", "closed: "+eddy.CloseInternalError.String())
	r.data(3, false, "there\n")
	r.wantData(3, "there!")
	r.request(5, false, connectTo("/panics")...)
	if err := testkit.Receive(t, "the tunnel", s.errs); err == nil {
		t.Error("no error")
	}
	r.wantEnd(5, "sorry")
	<-s.got
	r.data(3, true, "")
	other.want(t, "input closed")
	testkit.Eventually(t, "both reports", func() bool {
		n := uint64(0)
		for _, l := range enginetest.Stats(t, s.srv).Loops {
			n += l.Panics
		}
		return n == 2
	})
	if text := log.String(); !strings.Contains(text, "in Decode") || !strings.Contains(text, "in Open") || !strings.Contains(text, "tunnel_test.go") {
		t.Error(text)
	}
}

// However a tunnel ends, its handler is told once.
func TestTunnelEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		end    func(s *tunnels, r *raw, l *lines)
		events []string
		rest   string
	}{
		"the client resets it": {func(_ *tunnels, r *raw, _ *lines) {
			r.send(func() error { return r.WriteRSTStream(1, wire.ErrCodeCancel) })
		}, nil, "closed: " + eddy.ClosePeerClosed.String()},
		"the client goes": {func(_ *tunnels, r *raw, _ *lines) { _ = r.conn.Close() }, nil, "closed: "},
		"the server cuts it": {func(_ *tunnels, r *raw, l *lines) {
			l.CloseWith(eddy.CloseIdleTimeout, errors.New("silent"))
			l.CloseWith(eddy.CloseNormal, nil)
			r.wantReset(1, wire.ErrCodeCancel)
		}, nil, "closed: " + eddy.CloseIdleTimeout.String()},
		"a flush that is cut short": {func(_ *tunnels, r *raw, l *lines) {
			_ = l.Write([]byte(big(firstWindow + 1)))
			l.CloseAfterFlush(eddy.CloseNormal)
			l.CloseWith(eddy.CloseReadTimeout, nil)
			r.wantReset(1, wire.ErrCodeCancel)
		}, nil, "closed: " + eddy.CloseNormal.String()},
		"the server drains": {func(s *tunnels, _ *raw, l *lines) {
			go func() { _, _ = s.srv.Shutdown(context.Background()) }()
			l.want(s.t, "drain")
			l.CloseAfterFlush(eddy.CloseServerShutdown)
		}, nil, "closed: " + eddy.CloseServerShutdown.String()},
	} {
		t.Run(name, func(t *testing.T) {
			s := startTunnels(t, setup{}, echoLine)
			r := s.dial()
			l := s.tunnel(r, 1)
			tt.end(s, r, l)
			for e := ""; !strings.HasPrefix(e, tt.rest); {
				if e = testkit.Receive(t, "the end", l.events); !strings.HasPrefix(e, "closed: ") && !strings.HasPrefix(e, "writable ") {
					t.Errorf("%s before the end", e)
				}
			}
			s.settles()
			if n := l.closed.Load(); n != 1 {
				t.Errorf("told %d times", n)
			}
		})
	}
}

// After its end a tunnel waits for that of the client for a while, and hears nothing else.
func TestTunnelLingers(t *testing.T) {
	s := startTunnels(t, setup{clock: true}, func(l *lines, line string) { l.note(line) })
	r := s.dial()
	l := s.tunnel(r, 1)
	l.CloseAfterFlush(eddy.CloseNormal)
	for !r.nextData().StreamEnded() {
	}
	l.ResumeRead() // news of a stream that has ended bring no second end
	r.data(1, false, "not heard\n")
	enginetest.Barrier(t, s.srv)
	s.clock.Advance(tunnelLinger - tick/2)
	r.get(3, "/")
	if a := r.answer(3); a.body != "hello" || len(l.events) > 0 {
		t.Fatalf("%+v, %d events", a, len(l.events))
	}
	s.clock.Advance(tick)
	r.wantReset(1, wire.ErrCodeNo)
	l.want(t, "closed: "+eddy.CloseNormal.String())
	s.settles()
}

// A connection at its age drains its tunnels, and later ones.
func TestTunnelAge(t *testing.T) {
	s := startTunnels(t, setup{clock: true, opts: Options{MaxAge: 30 * time.Second}}, echoLine)
	r := s.dial()
	l := s.tunnel(r, 1)
	s.clock.Advance(spread(30*time.Second, r.conn.LocalAddr().String()) + drainGrace/10)
	l.want(t, "drain")
	r.next() // GOAWAY
	s.tunnel(r, 3).want(t, "drain")
}

// A client that opens no window for a tunnel loses it in time, and a route that awaits bodies does not await its end.
func TestTunnelWriteTimeout(t *testing.T) {
	s := startTunnels(t, setup{clock: true, opts: Options{WriteTimeout: timeout, Route: func(*http.Request) (to http1.Route) {
		to.Await = 1000
		return to
	}}}, echoLine)
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	l := s.tunnel(r, 1)
	r.data(1, false, "echo\n")
	testkit.Eventually(t, "the echo", func() bool { return l.QueuedBytes() > 0 })
	enginetest.Barrier(t, s.srv)
	s.clock.Pass(timeout-tick, tick)
	if err := l.CloseError(); err != nil {
		t.Fatal(err)
	}
	s.clock.Pass(2*tick, tick)
	r.wantReset(1, wire.ErrCodeCancel)
	if e := <-l.events; !strings.HasPrefix(e, "closed: ") {
		t.Error(e)
	}
}
