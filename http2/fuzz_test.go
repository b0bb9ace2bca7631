package http2

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// FuzzHeaderSection: no section makes the reader hold more than its limits, and no request that is accepted has a field that
// HTTP/2 forbids or that a server could read in two ways.
func FuzzHeaderSection(f *testing.F) {
	for _, fields := range [][]string{
		headersOf("GET", "/a?b=c", "cookie: a=1", "cookie: b=2"),
		headersOf("POST", "/", "content-length: 3", "content-length: 3", "te: trailers"),
		headersOf("OPTIONS", "*", "host: a"),
		{":method: CONNECT", ":authority: a:1"},
		{":method: CONNECT", ":scheme: https", ":path: /", ":authority: a", ":protocol: websocket"},
		headersOf("GET", "/", "connection: close", "X: y", "a b: c"),
	} {
		r := new(raw)
		r.enc = hpack.NewEncoder(&r.block)
		f.Add(r.section(fields...))
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		o, err := Options{MaxHeaderBytes: 1000, MaxHeaderCount: 20}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		var h headerReader
		h.init(&o)
		if len(block) > 2*o.MaxHeaderBytes || h.decode(block) != nil {
			return
		}
		size := 0
		for _, f := range h.fields {
			size += int(f.Size())
		}
		if size > o.MaxHeaderBytes || len(h.fields) > o.MaxHeaderCount {
			t.Fatalf("%d bytes in %d fields are kept", size, len(h.fields))
		}
		var head requestHead
		if h.large || head.parse(h.fields) != "" {
			return
		}
		r := new(http.Request)
		if !head.request(r) {
			return
		}
		for k, values := range r.Header {
			if k == ":protocol" && head.method == http.MethodConnect {
				continue
			}
			for _, v := range values {
				if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
					t.Fatalf("accepted %q: %q", k, v)
				}
			}
			switch k {
			case "Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive", "Host":
				t.Fatalf("accepted %q", k)
			}
		}
		if r.Method == "" || strings.ContainsAny(r.Host, "@/ ") || r.Method != http.MethodConnect && r.URL.Path == "" && r.RequestURI != "*" && !strings.HasPrefix(r.RequestURI, "/") {
			t.Fatalf("accepted %q %q %q", r.Method, r.Host, r.RequestURI)
		}
	})
}
