package rpc

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/internal/testkit"
)

// webPeers are clients of a port by both versions of HTTP.
func webPeers(t testing.TB, addr net.Addr) map[string]*grpcPeer {
	t.Helper()
	tr := new(http.Transport)
	t.Cleanup(tr.CloseIdleConnections)
	return map[string]*grpcPeer{
		"HTTP/1.1": {t, "http://" + addr.String(), &http.Client{Transport: tr, Timeout: testkit.Patience}},
		"HTTP/2":   dialGRPC(t, addr),
	}
}

// post sends a body and returns the whole response.
func (p *grpcPeer) post(path, kind, body string, fields ...string) (*http.Response, string) {
	p.t.Helper()
	resp, err := p.http.Do(p.request(context.Background(), path, strings.NewReader(body), append([]string{"Content-Type", kind}, fields...)...))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp, string(b)
}

// prefixed returns messages with their prefixes, the last one with the flags.
func prefixed(flags byte, msgs ...string) string {
	var b []byte
	for i, m := range msgs {
		if i < len(msgs)-1 {
			b = append(b, grpcMessage(0, m)...)
			continue
		}
		b = append(b, grpcMessage(flags, m)...)
	}
	return string(b)
}

func zipped(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestWebCalls: what calls by Connect and gRPC-Web are answered, by both versions of HTTP, on a pool and on the loop.
func TestWebCalls(t *testing.T) {
	pb, err := proto.Marshal(wrapperspb.String("abc"))
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 300_000)
	const (
		unary, binary  = "application/json", "application/proto"
		stream         = "application/connect+json"
		web, webBinary = "application/grpc-web+json", "application/grpc-web"
		text           = "application/grpc-web-text"
	)
	in64 := base64.StdEncoding.EncodeToString
	okTrailer := "grpc-status: 0\r\n"
	for _, d := range []Dispatcher{DispatchAll, DispatchDirect, DispatchMessage} {
		s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Dispatcher: d}}}), greeter(t, "/test:"), streams(t))
		for version, p := range webPeers(t, s.Addr("port0")) {
			t.Run(d.String()+" "+version, func(t *testing.T) {
				for _, call := range []struct {
					what, path, kind, in string
					status               int
					out                  string
				}{
					{"unary", "/test/Hello", unary, `{"name":"Ann","times":1}`, 200, `{"name":"Hello, Ann","times":2}`},
					{"a charset", "/test/Hello", unary + "; charset=utf-8", `{"name":"Ann","times":1}`, 200, `{"name":"Hello, Ann","times":2}`},
					{"protobuf", "/test/Proto", binary, string(pb), 200, "\x0a\x03ABC"},
					{"big", "/test/Echo", unary, big, 200, big},
					{"empty", "/test/Echo", binary, "", 200, ""},
					{"one-way", "/test/Note", unary, "{}", 200, "{}"},
					{"an error", "/test/Hello", unary, `{}`, 500, `{"code":"unknown","message":"nobody is there"}`},
					{"a status", "/test/Status", unary, ``, 401, `{"code":"unauthenticated","message":"who are you"}`},
					{"no JSON", "/test/Hello", unary, `{`, 400, `{"code":"invalid_argument","message":"rpc: a body that is no JSON for *rpc.greeting: unexpected end of JSON input"}`},
					{"no method", "/test/hello", unary, `{}`, 404, `{"code":"unimplemented","message":"no method /test/hello"}`},
					{"another codec", "/test/Hello", binary, "", 501, `{"code":"unimplemented","message":"method /test/Hello takes no protobuf"}`},
					{"a charset that is not JSON's", "/test/Hello", unary + "; charset=latin1", `{}`, 415, ""},
					{"no content type of calls", "/test/Hello", "text/plain", `{}`, 415, ""},
					{"a stream that is called as none", "/test.Streams/Count", unary, `{}`, 415, ""},
					{"a method that is called as a stream", "/test/Hello", stream, prefixed(0, `{}`), 415, ""},

					{"responses", "/test.Streams/Count", stream, prefixed(0, `{"name":"a","times":2}`), 200, prefixed(2, `{"name":"a"}`, `{"name":"a","times":1}`, `{}`)},
					{"no responses", "/test.Streams/Count", stream, prefixed(0, `{"name":"a"}`), 200, prefixed(2, `{}`)},
					{"a stream that fails", "/test.Streams/Count", stream, prefixed(0, `{"name":"fail","times":1}`), 200,
						prefixed(2, `{"name":"fail"}`, `{"error":{"code":"aborted","message":"after 1"}}`)},
					{"requests", "/test.Streams/Sum", stream, prefixed(0, `{"name":"a","times":1}`, `{"name":"b","times":2}`), 200, prefixed(2, `{"name":"ab","times":3}`, `{}`)},
					{"a cut request", "/test.Streams/Sum", stream, prefixed(0, `{"name":"a"}`)[:9], 200, prefixed(2, `{"error":{"code":"internal","message":"the request ends inside a message"}}`)},
					{"flags", "/test.Streams/Sum", stream, prefixed(4, `{}`), 200, prefixed(2, `{"error":{"code":"internal","message":"a message with the flags 0x4"}}`)},

					{"gRPC-Web", "/test/Hello", web, prefixed(0, `{"name":"Ann","times":1}`), 200, prefixed(0x80, `{"name":"Hello, Ann","times":2}`, okTrailer)},
					{"gRPC-Web, protobuf", "/test/Proto", webBinary, prefixed(0, string(pb)), 200, prefixed(0x80, "\x0a\x03ABC", okTrailer)},
					{"gRPC-Web, an error", "/test/Hello", web, prefixed(0, `{}`), 200, prefixed(0x80, "grpc-status: 2\r\ngrpc-message: nobody is there\r\n")},
					{"gRPC-Web, two messages", "/test/Echo", web, prefixed(0, "a", "b"), 200, prefixed(0x80, "grpc-status: 12\r\ngrpc-message: method Echo takes one message\r\n")},
					{"gRPC-Web, responses", "/test.Streams/Count", web, prefixed(0, `{"name":"a","times":2}`), 200, prefixed(0x80, `{"name":"a"}`, `{"name":"a","times":1}`, okTrailer)},
					{"text", "/test/Proto", text, in64([]byte(prefixed(0, string(pb)))), 200, in64([]byte(prefixed(0, "\x0a\x03ABC"))) + in64([]byte(prefixed(0x80, okTrailer)))},
					{"text in pieces", "/test/Echo", text, in64([]byte(prefixed(0, "abc")[:4])) + in64([]byte(prefixed(0, "abc")[4:])), 200,
						in64([]byte(prefixed(0, "abc"))) + in64([]byte(prefixed(0x80, okTrailer)))},
					{"text that is none", "/test/Echo", text, "????", 200, in64([]byte(prefixed(0x80, "grpc-status: 12\r\ngrpc-message: method Echo takes one message, and there is none\r\n")))},
				} {
					p := &grpcPeer{t, p.base, p.http}
					resp, out := p.post(call.path, call.kind, call.in)
					kind := call.kind
					if call.status >= 400 && call.status != 415 {
						kind = unary
					}
					if call.status == 415 {
						if !strings.Contains(resp.Header.Get("Accept-Post"), "application/connect+proto") || out == "" {
							t.Errorf("%s: %v %q", call.what, resp.Header, out)
						}
						out, kind = "", "text/plain; charset=utf-8"
					}
					if resp.StatusCode != call.status || out != call.out || resp.Header.Get("Content-Type") != kind {
						t.Errorf("%s: %d %v\n%.200q, want %d\n%.200q", call.what, resp.StatusCode, resp.Header, out, call.status, call.out)
					}
				}
				p := &grpcPeer{t, p.base, p.http}
				resp, out := p.post("/test.Streams/Echo", stream, prefixed(0, `{"name":"a"}`))
				if want := map[string]int{"HTTP/1.1": 505, "HTTP/2": 200}[version]; resp.StatusCode != want {
					t.Errorf("a stream in both directions: %d %q", resp.StatusCode, out)
				}
			})
		}
	}
}

// TestWebMetadata: metadata, details, timeouts and compression in the words of each protocol.
func TestWebMetadata(t *testing.T) {
	tell := func(ctx context.Context) []Pair {
		_ = SetHeader(ctx, Pair{"x-head", "h"}, Pair{"x-bytes-bin", "\x00\xff"})
		_ = SetTrailer(ctx, Pair{"x-tail", "t"})
		return CallFrom(ctx).Metadata
	}
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{MaxPayload: 2000}}}), newService(t, "/test:",
		Raw("Tell", func(ctx context.Context, _ []byte) ([]byte, error) { return json.Marshal(tell(ctx)) }),
		Raw("Fail", func(ctx context.Context, _ []byte) ([]byte, error) {
			tell(ctx)
			return nil, &Status{Code: CodeNotFound, Message: "no ü <100%>", Details: []proto.Message{wrapperspb.String("more")}}
		}),
		Raw("Wait", func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }),
		Raw("Late", func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return []byte("late"), nil }),
		Raw("Panic", func(context.Context, []byte) ([]byte, error) { panic("inside") }),
		Raw("Echo", func(_ context.Context, b []byte) ([]byte, error) { return b, nil }),
		Streaming("StreamPanic", ServerStreams, func(context.Context, Stream) error { panic("inside") }),
		Streaming("StreamTell", ServerStreams, func(ctx context.Context, s Stream) error {
			tell(ctx)
			b := []byte("x")
			return s.Send(&b)
		}),
	))
	const detail = `"details":[{"type":"google.protobuf.StringValue","value":"CgRtb3Jl"}]`
	for version, p := range webPeers(t, s.Addr("port0")) {
		t.Run(version, func(t *testing.T) {
			p := &grpcPeer{t, p.base, p.http}
			resp, out := p.post("/test/Tell", "application/json", "{}", "X-Mine", "1", "X-My-Bin", "AP8", "Grpc-Timeout", "1n", "Connect-Protocol-Version", "1")
			var got []Pair
			if err := json.Unmarshal([]byte(out), &got); err != nil || !slices.Contains(got, Pair{"x-mine", "1"}) || !reflect.DeepEqual(
				slices.IndexFunc(got, func(p Pair) bool {
					return strings.HasPrefix(p.Key, "grpc-") || strings.HasPrefix(p.Key, "connect-") || p.Key == "content-type"
				}), -1) {
				t.Errorf("metadata %v, %v", got, err)
			}
			if h := resp.Header; h.Get("X-Head") != "h" || h.Get("Trailer-X-Tail") != "t" || h.Get("X-Bytes-Bin") != "AP8" {
				t.Errorf("header %v", h)
			}
			resp, out = p.post("/test/Fail", "application/proto", "")
			if h := resp.Header; resp.StatusCode != 404 || h.Get("X-Head") != "h" || h.Get("Trailer-X-Tail") != "t" || out != `{"code":"not_found","message":"no ü <100%>",`+detail+`}` {
				t.Errorf("%d %v %s", resp.StatusCode, h, out)
			}
			resp, out = p.post("/test/StreamTell", "application/connect+proto", "")
			if h := resp.Header; h.Get("X-Head") != "h" || out != prefixed(2, "x", `{"metadata":{"x-tail":["t"]}}`) {
				t.Errorf("%v %q", h, out)
			}
			if resp, out = p.post("/test/StreamTell", "application/grpc-web", ""); resp.Header.Get("X-Head") != "h" || out != prefixed(0x80, "x", "grpc-status: 0\r\nx-tail: t\r\n") {
				t.Errorf("%v %q", resp.Header, out)
			}

			for _, call := range []struct {
				path, kind, in string
				fields         []string
				status         int
				out            string
			}{
				{"/test/Wait", "application/json", "", []string{"Connect-Timeout-Ms", "5"}, 504, `{"code":"deadline_exceeded","message":"context deadline exceeded"}`},
				{"/test/Wait", "application/json", "", []string{"Triple-Timeout-Ms", "5", "Triple-Protocol-Version", "0.1.0"}, 504, `{"code":"deadline_exceeded","message":"context deadline exceeded"}`},
				{"/test/Late", "application/json", "", []string{"Connect-Timeout-Ms", "5"}, 504, `{"code":"deadline_exceeded","message":"context deadline exceeded"}`},
				{"/test/Wait", "application/grpc-web", prefixed(0, ""), []string{"Grpc-Timeout", "5m"}, 200, prefixed(0x80, "grpc-status: 4\r\ngrpc-message: context deadline exceeded\r\n")},
				{"/test/Echo", "application/json", "", []string{"Connect-Timeout-Ms", "soon"}, 400, `{"code":"invalid_argument","message":"Connect-Timeout-Ms \"soon\": want up to 10 digits"}`},
				{"/test/Echo", "application/json", "", []string{"Connect-Timeout-Ms", "12345678901"}, 400, `{"code":"invalid_argument","message":"Connect-Timeout-Ms \"12345678901\": want up to 10 digits"}`},
				{"/test/Echo", "application/json", "", []string{"Connect-Protocol-Version", "2"}, 400, `{"code":"invalid_argument","message":"Connect-Protocol-Version \"2\": want 1"}`},
				{"/test/Panic", "application/json", "", nil, 500, `{"code":"internal","message":"the method panicked"}`},
				{"/test/StreamPanic", "application/connect+json", "", nil, 200, prefixed(2, `{"error":{"code":"internal","message":"the method panicked"}}`)},

				{"/test/Echo", "application/json", strings.Repeat("x", 2000), nil, 200, strings.Repeat("x", 2000)},
				{"/test/Echo", "application/json", strings.Repeat("x", 2001), nil, 429, `{"code":"resource_exhausted","message":"a message of 2001 bytes, limit 2000"}`},
				{"/test/Echo", "application/json", strings.Repeat("x", 100_000), nil, 429, `{"code":"resource_exhausted","message":"a message of 2001 bytes, limit 2000"}`},
				{"/test/Echo", "application/json", zipped(t, strings.Repeat("x", 2001)), []string{"Content-Encoding", "gzip"}, 429, `{"code":"resource_exhausted","message":"a message of 2001 bytes, limit 2000"}`},
				{"/test/Echo", "application/grpc-web", prefixed(0, strings.Repeat("x", 2001)), nil, 200, prefixed(0x80, "grpc-status: 8\r\ngrpc-message: a message of 2001 bytes, limit 2000\r\n")},
				{"/test/Echo", "application/json", "abc", []string{"Content-Encoding", "br"}, 501, `{"code":"unimplemented","message":"messages in \"br\": this server takes gzip and identity"}`},
				{"/test/Echo", "application/json", zipped(t, "abc"), []string{"Content-Encoding", "gzip", "Accept-Encoding", "br"}, 200, "abc"},
				{"/test/Echo", "application/grpc-web", prefixed(1, zipped(t, "abc")), []string{"Grpc-Encoding", "gzip"}, 200, prefixed(0x80, "abc", "grpc-status: 0\r\n")},
			} {
				if resp, out := p.post(call.path, call.kind, call.in, call.fields...); resp.StatusCode != call.status || out != call.out {
					t.Errorf("%s %v: %d %.200q, want %d %.200q", call.path, call.fields, resp.StatusCode, out, call.status, call.out)
				}
			}
			resp, out = p.post("/test/Echo", "application/json", zipped(t, "abc"), "Content-Encoding", "gzip", "Accept-Encoding", "gzip")
			if resp.Header.Get("Content-Encoding") != "gzip" || out != zipped(t, "abc") {
				t.Errorf("%v %q", resp.Header, out)
			}
			if resp, _ := p.post("/test/Echo", "application/json", "", "Content-Encoding", "br"); resp.Header.Get("Accept-Encoding") != "gzip" {
				t.Errorf("%v", resp.Header)
			}
		})
	}
}

// TestWebOrigins: which pages of other origins browsers let call, and what else is no POST.
func TestWebOrigins(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Name: "own"}, {Name: "some", Origins: []string{"https://a.example"}}, {Name: "all", Origins: []string{"*"}}}}), greeter(t, "/test:"))
	for port, lets := range map[string]map[string]bool{
		"own":  {"https://a.example": false},
		"some": {"https://a.example": true, "https://b.example": false},
		"all":  {"https://a.example": true, "null": true},
	} {
		for version, p := range webPeers(t, s.Addr(port)) {
			for origin, let := range lets {
				r := p.request(context.Background(), "/test/Hello", http.NoBody, "Origin", origin, "Access-Control-Request-Method", "POST",
					"Access-Control-Request-Headers", "content-type,connect-protocol-version,x-mine")
				r.Method = http.MethodOptions
				resp, err := p.http.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				h := resp.Header
				if let != (resp.StatusCode == 204) || let != (h.Get("Access-Control-Allow-Origin") == origin) || let != (h.Get("Access-Control-Allow-Headers") == "content-type,connect-protocol-version,x-mine") ||
					h.Get("Access-Control-Allow-Credentials") != "" || (h.Get("Vary") == "Origin") != (port != "own") {
					t.Errorf("%s, %s, %s: %d %v", port, version, origin, resp.StatusCode, h)
				}
				resp, _ = p.post("/test/Hello", "application/json", `{"name":"a"}`, "Origin", origin)
				if resp.StatusCode != 200 || let != (resp.Header.Get("Access-Control-Expose-Headers") == "*") || let != (resp.Header.Get("Access-Control-Allow-Origin") == origin) {
					t.Errorf("%s, %s, %s: %d %v", port, version, origin, resp.StatusCode, resp.Header)
				}
			}
			resp, err := p.http.Get(p.base + "/test/Hello")
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST, OPTIONS" {
				t.Errorf("GET: %d %v", resp.StatusCode, resp.Header)
			}
		}
	}
}

// TestWebLeftBody: a response to a request whose rest nobody reads says that the connection ends; the others keep it.
func TestWebLeftBody(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{MaxPayload: 100}}}), greeter(t, "/test:"), streams(t))
	p := webPeers(t, s.Addr("port0"))["HTTP/1.1"]
	for _, call := range []struct {
		path, kind, in string
		closes         bool
	}{
		{"/test/Echo", "application/json", "abc", false},
		{"/test/Hello", "application/json", "{}", false},
		{"/test.Streams/Count", "application/connect+json", prefixed(0, `{"name":"fail"}`), false},
		{"/test.Streams/Sum", "application/connect+json", prefixed(0, `{"name":"a"}`), false},
		{"/test/Echo", "text/plain", "abc", true},
		{"/test/None", "application/connect+json", prefixed(0, "{}"), true},
		{"/test.Streams/Sum", "application/connect+json", prefixed(0, strings.Repeat("x", 101)) + strings.Repeat("x", 300_000), true},
	} {
		r := p.request(context.Background(), call.path, io.MultiReader(strings.NewReader(call.in)), "Content-Type", call.kind)
		resp, err := p.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if resp.Body.Close(); err != nil || resp.Close != call.closes {
			t.Errorf("%s %s: closes %v, %v", call.path, call.kind, resp.Close, err)
		}
	}
}

// TestWebGet: methods that change nothing are called by GET, too.
func TestWebGet(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{MaxPayload: 2000}}}), newService(t, "/test:",
		Unary("Search", func(ctx context.Context, req *greeting) (*greeting, error) {
			if !CallFrom(ctx).Get {
				return nil, Statusf(CodeInternal, "no GET")
			}
			_ = SetHeader(ctx, Pair{"cache-control", "max-age=60"})
			return &greeting{Name: req.Name + "!", Times: 1}, nil
		}).NoSideEffects(),
		Raw("Echo", func(_ context.Context, b []byte) ([]byte, error) { return b, nil }).NoSideEffects(),
		Raw("Post", func(ctx context.Context, b []byte) ([]byte, error) { return fmt.Append(nil, CallFrom(ctx).Get), nil }),
	))
	in64 := base64.URLEncoding.EncodeToString
	for version, p := range webPeers(t, s.Addr("port0")) {
		for _, call := range []struct {
			target string
			status int
			kind   string
			out    string
		}{
			{"/test/Search?connect=v1&encoding=json&message=%7B%22name%22%3A%22a%22%7D", 200, "application/json", `{"name":"a!","times":1}`},
			{"/test/Search?encoding=json&base64=1&message=" + in64([]byte(`{"name":"ab"}`)), 200, "application/json", `{"name":"ab!","times":1}`},
			{"/test/Echo?encoding=proto&message=", 200, "application/proto", ""},
			{"/test/Echo?encoding=proto&base64=1&compression=gzip&message=" + in64([]byte(zipped(t, "abc"))), 200, "application/proto", "abc"},
			{"/test/Echo?encoding=proto&base64=1&compression=gzip&message=" + in64([]byte(zipped(t, strings.Repeat("x", 2001)))), 429, "application/json", `{"code":"resource_exhausted","message":"a message of 2001 bytes, limit 2000"}`},
			{"/test/Echo?encoding=proto&message=" + strings.Repeat("x", 2001), 429, "application/json", `{"code":"resource_exhausted","message":"a message of 2001 bytes, limit 2000"}`},
			{"/test/Echo?encoding=proto&message=a&compression=br", 501, "application/json", `{"code":"unimplemented","message":"messages in \"br\": this server takes gzip and identity"}`},
			{"/test/Echo?encoding=proto", 400, "application/json", `{"code":"invalid_argument","message":"no message in the query"}`},
			{"/test/Echo?encoding=proto&message=a&connect=v2", 400, "application/json", `{"code":"invalid_argument","message":"connect=\"v2\" in the query: want v1"}`},
			{"/test/Echo?encoding=proto&message=a&base64=2", 400, "application/json", `{"code":"invalid_argument","message":"base64=\"2\" in the query: want 0 or 1"}`},
			{"/test/Echo?encoding=proto&message=!&base64=1", 400, "application/json", `{"code":"invalid_argument","message":"message in the query: illegal base64 data at input byte 0"}`},
			{"/test/None?encoding=json&message=a", 404, "application/json", `{"code":"unimplemented","message":"no method /test/None"}`},
			{"/test/Echo?encoding=xml&message=a", 415, "text/plain; charset=utf-8", ""},
			{"/test/Echo?encoding=grpc-web&message=a", 415, "text/plain; charset=utf-8", ""},
			{"/test/Post?encoding=json&message=a", 405, "text/plain; charset=utf-8", ""},
		} {
			r := p.request(context.Background(), call.target, http.NoBody)
			r.Method = http.MethodGet
			r.Header.Del("Content-Type")
			resp, err := p.http.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != call.status || resp.Header.Get("Content-Type") != call.kind || call.out != "" && string(b) != call.out {
				t.Errorf("%s, %.80s: %d %v %q", version, call.target, resp.StatusCode, resp.Header, b)
			}
			if strings.HasPrefix(call.target, "/test/Search") && resp.Header.Get("Cache-Control") != "max-age=60" {
				t.Errorf("%v", resp.Header)
			}
		}
		if resp, out := p.post("/test/Post", "application/json", ""); resp.StatusCode != 200 || out != "false" {
			t.Errorf("%d %s", resp.StatusCode, out)
		}
	}
}

// TestWebProtocols: a port speaks those of its options and no other.
func TestWebProtocols(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{
		{Name: "web", Protocols: []Protocol{ProtocolWeb}},
		{Name: "grpc", Protocols: []Protocol{ProtocolGRPC}},
		{Name: "both", Protocols: []Protocol{ProtocolWeb, ProtocolGRPC}},
		{Name: "frame", Protocols: []Protocol{ProtocolFrame}},
		{Name: "frame, web", Protocols: []Protocol{ProtocolFrame, ProtocolWeb}},
	}}), greeter(t, "/test:"))
	for port, want := range map[string]string{
		"web": "HTTP/1.1 200, HTTP/2 200, gRPC 415", "grpc": "HTTP/2 415, gRPC 200", "both": "HTTP/1.1 200, HTTP/2 200, gRPC 200",
		"frame": "HTTP/1.1 0, HTTP/2 0, gRPC 0", "frame, web": "HTTP/1.1 200, HTTP/2 200, gRPC 415",
	} {
		peers := webPeers(t, s.Addr(port))
		status := func(p *grpcPeer, kind, body string) int {
			resp, err := p.http.Do(p.request(context.Background(), "/test/Hello", strings.NewReader(body), "Content-Type", kind))
			if err != nil {
				return 0
			}
			_ = resp.Body.Close()
			return resp.StatusCode
		}
		got := ""
		if port != "grpc" { // which sends its settings before it has read anything
			got = fmt.Sprintf("HTTP/1.1 %d, ", status(peers["HTTP/1.1"], "application/json", `{"name":"a"}`))
		}
		got += fmt.Sprintf("HTTP/2 %d, gRPC %d",
			status(peers["HTTP/2"], "application/json", `{"name":"a"}`), status(peers["HTTP/2"], "application/grpc+json", prefixed(0, `{"name":"a"}`)))
		if got != want {
			t.Errorf("%s: %s, want %s", port, got, want)
		}
	}
}

// TestWebFull: the limits of services and pools hold, and health is told while all are full.
func TestWebFull(t *testing.T) {
	enter, leave := make(chan struct{}), make(chan struct{})
	hold := Raw("Hold", func(_ context.Context, b []byte) ([]byte, error) {
		enter <- struct{}{}
		<-leave
		return b, nil
	})
	s := newServer(t, ServerOptions{RetryAfter: 1500 * time.Millisecond, Ports: []PortOptions{{Pool: PoolOptions{Threads: 2}}}})
	if err := s.Register(newService(t, "/one:", hold), InFlight(1)); err != nil {
		t.Fatal(err)
	}
	serve(t, s, newService(t, "/test:", hold))
	for version, p := range webPeers(t, s.Addr("port0")) {
		answers := make(chan int, 2)
		begin := func(busy int, path string) { // beside so many that run; the call before may have its worker for a moment longer
			testkit.Eventually(t, "a worker that is free", func() bool { return running(s) == busy })
			go func() {
				resp, _ := p.post(path, "application/json", "{}")
				answers <- resp.StatusCode
			}()
			testkit.Receive(t, "the method", enter)
		}
		begin(0, "/one/Hold")
		resp, out := p.post("/one/Hold", "application/json", "{}")
		if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "2" || !strings.Contains(out, "resource_exhausted") {
			t.Errorf("%s: a service at its limit: %d %v %s", version, resp.StatusCode, resp.Header, out)
		}
		begin(1, "/test/Hold")
		if resp, _ := p.post("/test/Hold", "application/json", "{}"); resp.StatusCode != 503 {
			t.Errorf("%s: a full pool answers %d", version, resp.StatusCode)
		}
		if resp, out := p.post("/grpc.health.v1.Health/Check", "application/proto", ""); resp.StatusCode != 200 || out != "\x08\x01" {
			t.Errorf("%s: health %d %q", version, resp.StatusCode, out)
		}
		for range 2 {
			leave <- struct{}{}
			if got := testkit.Receive(t, "the answer", answers); got != 200 {
				t.Errorf("%s: %d", version, got)
			}
		}
	}
	for key, st := range s.Stats().Services {
		if st.InFlight != 0 {
			t.Errorf("%v: %d in flight", key, st.InFlight)
		}
	}
}
