package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"
)

func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		get + "\r\n",
		"POST /a?b=c HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y ; z = \"\\\"\"\r\nabc\r\n0\r\nT: v\r\n\r\n",
		"GET http://h/p HTTP/1.1\r\nHost: a\r\nConnection: close\r\nPragma: no-cache\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: [::1]:1\r\nExpect: 100-continue\r\n\r\n",
		"CONNECT a:1 HTTP/1.1\r\nHost: b\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: A, B\r\n\r\n1\r\nx\r\n0\r\nA: 1\r\nc: 2\r\n\r\n",
	} {
		f.Add([]byte(s), uint8(3))
	}
	for _, r := range refusals() {
		f.Add([]byte(r.in), uint8(0))
	}
	f.Fuzz(func(t *testing.T, in []byte, split uint8) {
		whole := newMachine(t, Options{})
		rest := whole.feedAll(string(in), func(left int) int { return left })
		parts := newMachine(t, Options{})
		parts.feedAll(string(in), func(left int) int { return min(left, 1+int(split)) })
		if a, b := outcomes(whole), outcomes(parts); a != b {
			t.Fatalf("whole input gives\n%s\nsplit input gives\n%s", a, b)
		}
		compareWithNetHTTP(t, in, whole, len(rest))
	})
}

// compareWithNetHTTP requires net/http to read the same requests from the bytes: method, target, URL, header, body, trailer
// and whether the connection goes on. Both must be at the same byte afterwards. docs/http.md lists the intended
// differences: this package refuses much that net/http accepts, never the other way round, and only net/http adds
// Cache-Control to a request with "Pragma: no-cache".
func compareWithNetHTTP(t *testing.T, in []byte, m *machine, rest int) {
	br := bufio.NewReaderSize(bytes.NewReader(in), len(in)+16)
	for _, p := range m.out {
		if p.err != nil {
			return
		}
		ref, err := http.ReadRequest(br)
		if err != nil {
			t.Fatalf("accepted %v, net/http says %v", p, err)
		}
		body, err := io.ReadAll(ref.Body)
		if err != nil {
			t.Fatalf("accepted the body %q, net/http says %v", p.body, err)
		}
		if ref.Header.Get("Cache-Control") == "no-cache" && p.req.Header.Get("Pragma") == "no-cache" {
			p.req.Header["Cache-Control"] = ref.Header["Cache-Control"]
		}
		want := parsed{req: ref, body: string(body)}
		if p.String() != want.String() {
			t.Fatalf("read as\n%v\nnet/http reads\n%v", p, want)
		}
		if p.req.URL.String() != ref.URL.String() {
			t.Fatalf("URL %v, net/http has %v", p.req.URL, ref.URL)
		}
	}
	left, _ := io.ReadAll(br)
	if !m.failed() && !m.inBody && len(left) != rest {
		t.Fatalf("%d bytes left after the requests, net/http leaves %d", rest, len(left))
	}
}
