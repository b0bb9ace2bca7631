package http2

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	wire "golang.org/x/net/http2"

	"github.com/go-eddy/eddy/internal/testkit"
)

// TestClientMalformed: a malformed response ends its stream with the code that RFC 9113 names, and no other stream.
func TestClientMalformed(t *testing.T) {
	ok := []string{":status", "200"}
	with := func(more ...string) []string { return append(ok[:2:2], more...) }
	for name, send := range map[string]func(p *peer, id uint32){
		"no status":      func(p *peer, id uint32) { _ = p.answers(id, true, "a", "b") },
		"status twice":   func(p *peer, id uint32) { _ = p.answers(id, true, with(":status", "200")...) },
		"a pseudo field": func(p *peer, id uint32) { _ = p.answers(id, true, with(":path", "/")...) },
		"status of text": func(p *peer, id uint32) { _ = p.answers(id, true, ":status", "2x0") },
		"status 101":     func(p *peer, id uint32) { _ = p.answers(id, false, ":status", "101") },
		"status 1000":    func(p *peer, id uint32) { _ = p.answers(id, true, ":status", "1000") },
		"upper case":     func(p *peer, id uint32) { _ = p.answers(id, true, with("Name", "a")...) },
		"connection":     func(p *peer, id uint32) { _ = p.answers(id, true, with("connection", "close")...) },
		"a value":        func(p *peer, id uint32) { _ = p.answers(id, true, with("name", "a\rb")...) },
		"bad length":     func(p *peer, id uint32) { _ = p.answers(id, true, with("content-length", "-1")...) },
		"two lengths": func(p *peer, id uint32) {
			_ = p.answers(id, true, with("content-length", "0", "content-length", "1")...)
		},
		"length, no body": func(p *peer, id uint32) { _ = p.answers(id, true, with("content-length", "1")...) },
		"1xx at the end":  func(p *peer, id uint32) { _ = p.answers(id, true, ":status", "103") },
		"data first":      func(p *peer, id uint32) { _ = p.WriteData(id, true, []byte("x")) },
		"too long": func(p *peer, id uint32) {
			_ = p.answers(id, false, with("content-length", "1")...)
			_ = p.WriteData(id, false, []byte("xy"))
		},
		"too short": func(p *peer, id uint32) {
			_ = p.answers(id, false, with("content-length", "2")...)
			_ = p.WriteData(id, true, []byte("x"))
		},
		"204 with a body": func(p *peer, id uint32) {
			_ = p.answers(id, false, ":status", "204")
			_ = p.WriteData(id, true, []byte("x"))
		},
		"endless trailer": func(p *peer, id uint32) { _ = p.answers(id, false, ok...); _ = p.answers(id, false, "a", "b") },
		"status behind":   func(p *peer, id uint32) { _ = p.answers(id, false, ok...); _ = p.answers(id, true, ":status", "200") },
		"framing trailer": func(p *peer, id uint32) {
			_ = p.answers(id, false, ok...)
			_ = p.answers(id, true, "content-length", "1")
		},
		"many fields": func(p *peer, id uint32) {
			_ = p.answers(id, true, with(strings.Split(strings.Repeat("a|b|", 200)+"a|b", "|")...)...)
		},
		"many bytes": func(p *peer, id uint32) {
			_ = p.answers(id, true, with("a", strings.Repeat("b", 9000), "c", strings.Repeat("d", 4000))...)
		},
		"window of 0":      func(p *peer, id uint32) { _ = p.WriteRawFrame(wire.FrameWindowUpdate, 0, id, make([]byte, 4)) },
		"window too large": func(p *peer, id uint32) { _ = p.WriteWindowUpdate(id, 1<<31-1) },
		"beyond a window": func(p *peer, id uint32) {
			_ = p.answers(id, false, ok...)
			_ = p.WriteData(id, false, make([]byte, 1001))
		},
		"1xx without end": func(p *peer, id uint32) {
			for range maxInformational + 1 {
				_ = p.answers(id, false, ":status", "103")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			reset := make(chan wire.ErrCode, 1)
			base := script(t, func(p *peer) {
				send(p, p.takes())
				if f := until[*wire.RSTStreamFrame](p); f != nil {
					reset <- f.ErrCode
				}
				p.serves("fine")
			})
			tr := transport(t, &Transport{MaxHeaderBytes: 12 << 10, MaxHeaderCount: 100, BodyBuffer: 1000})
			o := fetch(tr, request(t, "POST", base, nil))
			var se *StreamError
			if !errors.As(o.err, &se) || se.Remote {
				t.Errorf("%v", o.err)
			}
			if code := testkit.Receive(t, "the reset", reset); se != nil && code != wire.ErrCode(se.Code) {
				t.Errorf("reset with %v, told %v", code, se)
			}
			if o := fetch(tr, request(t, "GET", base, nil)); o.err != nil || o.body != "fine" || tr.Stats().Open != 1 {
				t.Errorf("afterwards: %v %q, %+v", o.err, o.body, tr.Stats())
			}
		})
	}
}

// TestClientConnectionErrors: frames that no server may send end the connection with a GOAWAY that names the code.
func TestClientConnectionErrors(t *testing.T) {
	frame := func(typ wire.FrameType, flags wire.Flags, id uint32, b ...byte) func(*peer, uint32) {
		return func(p *peer, _ uint32) { _ = p.WriteRawFrame(typ, flags, id, b) }
	}
	setting := func(id uint16, v uint32) func(*peer, uint32) {
		return func(p *peer, _ uint32) { _ = p.WriteRawFrame(wire.FrameSettings, 0, 0, appendSetting(nil, id, v)) }
	}
	for name, c := range map[string]struct {
		code ErrCode
		send func(p *peer, id uint32)
	}{
		"push":          {CodeProtocol, func(p *peer, id uint32) { _ = p.WriteRawFrame(wire.FramePushPromise, 4, id, []byte{0, 0, 0, 2}) }},
		"data of 0":     {CodeProtocol, frame(wire.FrameData, 0, 0, 1)},
		"data, idle":    {CodeProtocol, frame(wire.FrameData, 0, 99, 1)},
		"headers, idle": {CodeProtocol, frame(wire.FrameHeaders, 4, 99)},
		"headers, even": {CodeProtocol, frame(wire.FrameHeaders, 4, 2)},
		"hpack":         {CodeCompression, frame(wire.FrameHeaders, 4, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)},
		"padding":       {CodeProtocol, frame(wire.FrameData, 8, 1, 9, 1)},
		"continuation":  {CodeProtocol, frame(wire.FrameContinuation, 4, 1)},
		"interrupted": {CodeProtocol, func(p *peer, id uint32) {
			_ = p.WriteRawFrame(wire.FrameHeaders, 0, id, nil)
			_ = p.WritePing(false, [8]byte{})
		}},
		"reset of 0":         {CodeProtocol, frame(wire.FrameRSTStream, 0, 0, 0, 0, 0, 0)},
		"reset, size":        {CodeFrameSize, frame(wire.FrameRSTStream, 0, 1, 0)},
		"reset, idle":        {CodeProtocol, frame(wire.FrameRSTStream, 0, 99, 0, 0, 0, 0)},
		"settings of 1":      {CodeProtocol, frame(wire.FrameSettings, 0, 1)},
		"settings, size":     {CodeFrameSize, frame(wire.FrameSettings, 0, 0, 1)},
		"settings, push":     {CodeProtocol, setting(settingPush, 1)},
		"settings, window":   {CodeFlowControl, setting(settingWindow, 1<<31)},
		"settings, frame":    {CodeProtocol, setting(settingMaxFrame, 1)},
		"settings, protocol": {CodeProtocol, setting(settingConnectProtocol, 2)},
		"ping of 1":          {CodeProtocol, frame(wire.FramePing, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)},
		"ping, size":         {CodeFrameSize, frame(wire.FramePing, 0, 0, 0)},
		"goaway of 1":        {CodeProtocol, frame(wire.FrameGoAway, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)},
		"goaway, size":       {CodeFrameSize, frame(wire.FrameGoAway, 0, 0, 0)},
		"window of 0":        {CodeProtocol, frame(wire.FrameWindowUpdate, 0, 0, 0, 0, 0, 0)},
		"window, size":       {CodeFrameSize, frame(wire.FrameWindowUpdate, 0, 0, 0)},
		"window, idle":       {CodeProtocol, frame(wire.FrameWindowUpdate, 0, 99, 0, 0, 0, 1)},
		"window, connection": {CodeFlowControl, frame(wire.FrameWindowUpdate, 0, 0, 0x7f, 0xff, 0xff, 0xff)},
		"a long frame":       {CodeFrameSize, func(p *peer, _ uint32) { _ = p.WriteRawFrame(99, 0, 0, make([]byte, maxFrame+1)) }},
		"a header bomb": {CodeEnhanceYourCalm, func(p *peer, id uint32) {
			_ = p.WriteRawFrame(wire.FrameHeaders, 0, id, make([]byte, maxFrame))
			for range 8 {
				_ = p.WriteRawFrame(wire.FrameContinuation, 0, id, make([]byte, maxFrame))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			base := script(t, func(p *peer) { c.send(p, p.takes()) })
			tr := transport(t, &Transport{})
			o := fetch(tr, request(t, "GET", base, nil))
			var ce *ConnError
			if !errors.As(o.err, &ce) || ce.Code != c.code {
				t.Errorf("%v, want %v", o.err, c.code)
			}
			testkit.Eventually(t, "the connection to end", func() bool { return tr.Stats().Open == 0 })
		})
	}
}

// TestClientFloods: what costs the client more than the server is bounded.
func TestClientFloods(t *testing.T) {
	raw := func(typ wire.FrameType, flags wire.Flags, n int) func(*peer, uint32) error {
		return func(p *peer, id uint32) error {
			if typ != wire.FrameData && typ != wire.FrameContinuation && typ != wire.FramePriority {
				id = 0
			}
			return p.WriteRawFrame(typ, flags, id, make([]byte, n))
		}
	}
	for name, send := range map[string]func(p *peer, id uint32) error{
		"settings":      raw(wire.FrameSettings, 0, 0),
		"settings acks": raw(wire.FrameSettings, 1, 0),
		"pings":         raw(wire.FramePing, 0, 8),
		"ping acks":     raw(wire.FramePing, 1, 8),
		"empty data":    raw(wire.FrameData, 0, 0),
		"unknown":       raw(99, 0, 0),
		"priorities":    raw(wire.FramePriority, 0, 5),
		"continuations": raw(wire.FrameContinuation, 0, 1),
		"go away":       func(p *peer, _ uint32) error { return p.WriteGoAway(1<<31-1, 0, nil) },
		"windows":       func(p *peer, id uint32) error { return p.WriteWindowUpdate(id, 1) },
		"1xx":           func(p *peer, id uint32) error { return p.answers(id, false, ":status", "103") },
	} {
		t.Run(name, func(t *testing.T) {
			base := script(t, func(p *peer) {
				id := p.takes()
				switch name {
				case "empty data":
					_ = p.answers(id, false, ":status", "200")
				case "continuations":
					_ = p.WriteRawFrame(wire.FrameHeaders, 0, id, nil)
				}
				var over atomic.Bool
				var wg sync.WaitGroup
				wg.Go(func() {
					_, _ = io.Copy(io.Discard, p.conn)
					over.Store(true)
				})
				for !over.Load() && send(p, id) == nil { // until the client has ended the connection, or the test
				}
				wg.Wait()
			})
			tr := transport(t, &Transport{})
			if o := fetch(tr, request(t, "POST", base, nil)); o.err == nil {
				t.Error("the flood was an answer")
			}
			testkit.Eventually(t, "the connection to end", func() bool { s := tr.Stats(); return s.Open == 0 && s.Floods == 1 })
		})
	}
}

// FuzzClientResponse: no bytes of a server make the client panic, and a header that is taken is one that net/http can hold.
func FuzzClientResponse(f *testing.F) {
	f.Add([]byte("\x88"))
	f.Add([]byte("\x88\x5c\x011"))
	f.Add([]byte("\x88\x40\x01a\x01b\x40\x07trailer\x01x"))
	f.Fuzz(func(t *testing.T, block []byte) {
		o, err := Options{}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		var h headerReader
		h.init(&o)
		if h.decode(block) != nil || h.large {
			return
		}
		var head responseHead
		if head.parse(h.fields) != "" {
			return
		}
		if head.status < 100 || head.status > 999 || head.status == 101 {
			t.Errorf("status %d", head.status)
		}
		header := head.header()
		for k, v := range header {
			if k == "" || k[0] == ':' || len(v) == 0 || http.CanonicalHeaderKey(k) != k {
				t.Errorf("field %q: %q", k, v)
			}
		}
		if n := header.Get("Content-Length"); n == "" != (head.length < 0) || head.length >= 0 && strings.TrimLeft(n, "0") != strings.TrimLeft(fmt.Sprint(head.length), "0") {
			t.Errorf("length %d of %q", head.length, n)
		}
	})
}
