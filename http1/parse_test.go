package http1

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// parsed is one outcome of the parser: a request with its body, or an error.
type parsed struct {
	req  *http.Request
	body string
	err  *requestError
}

func (p parsed) String() string {
	if p.err != nil {
		return fmt.Sprintf("error %d %s", p.err.status, p.err.msg)
	}
	s := fmt.Sprintf("%s %s %s host=%q header=%v length=%d close=%v body=%q",
		p.req.Method, p.req.RequestURI, p.req.Proto, p.req.Host, p.req.Header, p.req.ContentLength, p.req.Close, p.body)
	if len(p.req.Trailer) > 0 {
		s += fmt.Sprintf(" trailer=%v", p.req.Trailer)
	}
	return s
}

// machine runs head and bodyFrame as the decoder does. Bytes that a step does
// not consume are in the next view again, at the same place.
type machine struct {
	opts   Options
	head   head
	frame  bodyFrame
	inBody bool
	cur    parsed
	room   int
	out    []parsed
}

func newMachine(t testing.TB, o Options) *machine {
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{opts: o, room: 1 << 30}
	m.head.reset(&m.opts)
	return m
}

// step consumes what it can; false means that more bytes are needed.
func (m *machine) step(view []byte) (int, bool) {
	if m.inBody {
		return m.bodyStep(view)
	}
	n, err := m.head.feed(view)
	if err == nil && n == 0 {
		return 0, false
	}
	if err == nil {
		m.cur = parsed{req: (&http.Request{URL: new(url.URL)}).WithContext(context.Background())}
		err = m.head.request(m.cur.req, nil, string(view[:n]))
	}
	if err != nil {
		m.out = append(m.out, parsed{err: err})
		return 0, false
	}
	m.frame.init(&m.head)
	m.inBody = true
	m.end()
	return n, true
}

func (m *machine) bodyStep(view []byte) (int, bool) {
	data, n, err := m.frame.next(view, m.room)
	if err != nil {
		m.out = append(m.out, parsed{err: err})
		return 0, false
	}
	m.cur.body += string(data)
	m.end()
	return n, n > 0
}

func (m *machine) end() {
	if m.frame.done() {
		mergeTrailer(&m.cur.req.Trailer, m.frame.trailer)
		m.out = append(m.out, m.cur)
		m.inBody = false
		m.head.reset(&m.opts)
	}
}

func (m *machine) failed() bool {
	return len(m.out) > 0 && m.out[len(m.out)-1].err != nil
}

// feedAll gives the machine the input in pieces and returns what is left over.
func (m *machine) feedAll(input string, pieces func(left int) int) []byte {
	var held []byte
	for len(input) > 0 {
		k := pieces(len(input))
		held = append(held, input[:k]...)
		input = input[k:]
		for !m.failed() {
			n, more := m.step(held)
			held = held[n:]
			if !more {
				break
			}
		}
		if m.failed() {
			return nil
		}
	}
	return held
}

func outcomes(m *machine) string {
	var b strings.Builder
	for _, p := range m.out {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// everyWay parses the input whole, byte by byte and at random splits, and wants
// the same outcome from all.
func everyWay(t *testing.T, o Options, input string) *machine {
	t.Helper()
	whole := newMachine(t, o)
	whole.feedAll(input, func(left int) int { return left })
	want := outcomes(whole)
	rng := rand.New(rand.NewPCG(1, uint64(len(input))))
	for round := range 12 {
		m := newMachine(t, o)
		m.feedAll(input, func(left int) int {
			if round == 0 {
				return 1
			}
			return 1 + rng.IntN(min(left, 1+rng.IntN(64)))
		})
		if got := outcomes(m); got != want {
			t.Fatalf("round %d: split input gives\n%s\nwhole input gives\n%s", round, got, want)
		}
	}
	return whole
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n"

func TestParseAccepts(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", get + "\r\n", `GET / HTTP/1.1 host="a" header=map[] length=0 close=false body=""`},
		{"http 1.0 without host", "GET /x HTTP/1.0\r\n\r\n", `GET /x HTTP/1.0 host="" header=map[] length=0 close=true body=""`},
		{"http 1.0 keep-alive", "GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", `GET /x HTTP/1.0 host="" header=map[Connection:[Keep-Alive]] length=0 close=false body=""`},
		{"close", get + "connection: foo , Close\r\n\r\n", `GET / HTTP/1.1 host="a" header=map[Connection:[foo , Close]] length=0 close=true body=""`},
		{"values trimmed and canonical", get + "x-a: \t b c \t \r\nX-A:d\r\nx-empty:\r\n\r\n", `GET / HTTP/1.1 host="a" header=map[X-A:[b c d] X-Empty:[]] length=0 close=false body=""`},
		{"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", `GET / HTTP/1.1 host="" header=map[] length=0 close=false body=""`},
		{"ipv6 host", "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", `GET / HTTP/1.1 host="[::1]:8080" header=map[] length=0 close=false body=""`},
		{"absolute form wins over host", "GET http://b:80/p?q HTTP/1.1\r\nHost: a\r\n\r\n", `GET http://b:80/p?q HTTP/1.1 host="b:80" header=map[] length=0 close=false body=""`},
		{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", `OPTIONS * HTTP/1.1 host="a" header=map[] length=0 close=false body=""`},
		{"authority", "CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n", `CONNECT b:443 HTTP/1.1 host="b:443" header=map[] length=0 close=false body=""`},
		{"http 1.2 is read as 1.1", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", `GET / HTTP/1.2 host="a" header=map[] length=0 close=false body=""`},
		{"unknown method", "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", `BREW /pot HTTP/1.1 host="a" header=map[] length=0 close=false body=""`},
		{"obs-text value", get + "X: caf\xe9\r\n\r\n", "GET / HTTP/1.1 host=\"a\" header=map[X:[caf\xe9]] length=0 close=false body=\"\""},
		{"length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", `POST / HTTP/1.1 host="a" header=map[Content-Length:[5]] length=5 close=false body="hello"`},
		{"length zero", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", `POST / HTTP/1.1 host="a" header=map[Content-Length:[0]] length=0 close=false body=""`},
		{"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\n\r\n", `POST / HTTP/1.1 host="a" header=map[] length=-1 close=false body="hello0123456789"`},
		{"chunked with trailer", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1 ;e\r\nx\r\n0\r\nX-T: 1\r\n\r\n", `POST / HTTP/1.1 host="a" header=map[] length=-1 close=false body="x" trailer=map[X-T:[1]]`},
		{"chunk extensions", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"1;a\r\na\r\n1;a;b=c;d\r\nb\r\n1 ;\ta =\t b \t; c = \"d\"\r\nc\r\n1;a=\"\"\r\nd\r\n1;a=\"b;=\\\"\\\\\t\xe9\\\xe9\";c\r\ne\r\n0;!#$%&'*+-.^_`|~=1\r\n\r\n",
			`POST / HTTP/1.1 host="a" header=map[] length=-1 close=false body="abcde"`},
		{"announced trailer", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x-t, X-U\r\n\r\n0\r\nX-T: 1\r\n\r\n", `POST / HTTP/1.1 host="a" header=map[] length=-1 close=false body="" trailer=map[X-T:[1] X-U:[]]`},
		{"pipelined", get + "\r\n" + "POST /2 HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nok" + get + "\r\n",
			`GET / HTTP/1.1 host="a" header=map[] length=0 close=false body=""` + "\n" +
				`POST /2 HTTP/1.1 host="b" header=map[Content-Length:[2]] length=2 close=false body="ok"` + "\n" +
				`GET / HTTP/1.1 host="a" header=map[] length=0 close=false body=""`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := outcomes(everyWay(t, Options{}, tt.in)); got != tt.want+"\n" {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

// small are limits that short inputs reach.
var small = Options{MaxRequestLine: 40, MaxHeaderBytes: 120, MaxHeaderCount: 4, MaxBody: 10}

// refusal is a request that must be refused, under the limits of small, and with which status.
type refusal struct {
	name   string
	in     string
	status int
}

// refusals has the ways to smuggle a request, and all other requests that two readers could understand differently or that
// are over a limit.
func refusals() []refusal {
	post := "POST / HTTP/1.1\r\nHost: a\r\n"
	chunked := post + "Transfer-Encoding: chunked\r\n\r\n"
	return []refusal{
		{"empty line first", "\r\nGET / HTTP/1.1\r\n", 400},
		{"tls client hello", "\x16\x03\x01\x02\x00\x01", 400},
		{"bare LF in request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
		{"bare LF in header", "GET / HTTP/1.1\r\nHost: a\n\r\n", 400},
		{"bare LF as end of head", get + "\n", 400},
		{"bare CR in request line", "GET /\r HTTP/1.1\r\n", 400},
		{"bare CR in value", get + "X: a\rb\r\n\r\n", 400},
		{"two spaces", "GET  / HTTP/1.1\r\n", 400},
		{"trailing space", "GET / HTTP/1.1 \r\n", 400},
		{"tab as separator", "GET\t/ HTTP/1.1\r\n", 400},
		{"no target", "GET HTTP/1.1\r\n", 400},
		{"no version (0.9)", "GET /\r\n", 400},
		{"bad method character", "G(T / HTTP/1.1\r\n", 400},
		{"control in target", "GET /\x01 HTTP/1.1\r\n", 400},
		{"non-ascii target", "GET /\xc3\xa4 HTTP/1.1\r\n", 400},
		{"fragment in target", "GET /#x HTTP/1.1\r\n", 400},
		{"bad escape in target", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"lower-case protocol", "GET / http/1.1\r\n", 400},
		{"version with two digits", "GET / HTTP/1.10\r\n", 400},
		{"http/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"http/1.2 without host", "GET / HTTP/1.2\r\n\r\n", 400},
		{"http/0.9 spelled", "GET / HTTP/0.9\r\n", 505},
		{"connect without port", "CONNECT a HTTP/1.1\r\n", 400},
		{"connect with empty port", "CONNECT a: HTTP/1.1\r\n", 400},
		{"connect without host", "CONNECT :443 HTTP/1.1\r\n", 400},
		{"connect with a path", "CONNECT /a HTTP/1.1\r\n", 400},
		{"connect in absolute form", "CONNECT http://a:443/ HTTP/1.1\r\n", 400},
		{"connect with userinfo", "CONNECT u@a:443 HTTP/1.1\r\n", 400},
		{"connect to a bare address", "CONNECT [::1] HTTP/1.1\r\n", 400},
		{"asterisk with get", "GET * HTTP/1.1\r\n", 400},
		{"authority with get", "GET a:80 HTTP/1.1\r\n", 400},
		{"other scheme", "GET ftp://a/ HTTP/1.1\r\n", 400},
		{"absolute without host", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"userinfo", "GET http://u@a/x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two hosts", get + "host: a\r\n\r\n", 400},
		{"two hosts in 1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400},
		{"host with path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
		{"host with userinfo", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400},
		{"host with bad port", "GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n", 400},
		{"host with two ports", "GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n", 400},
		{"host without name", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400},
		{"host with space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		{"host in brackets that is no address", "GET / HTTP/1.1\r\nHost: [a]\r\n\r\n", 400},
		{"host with zone", "GET / HTTP/1.1\r\nHost: [fe80::1%eth0]\r\n\r\n", 400},
		{"host with text behind brackets", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", 400},
		{"host with open bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
		{"obs-fold", get + "X: a\r\n b\r\n\r\n", 400},
		{"space before first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
		{"space before colon", get + "X : a\r\n\r\n", 400},
		{"tab before colon", get + "Content-Length\t: 1\r\n\r\n", 400},
		{"no colon", get + "X\r\n\r\n", 400},
		{"empty name", get + ": a\r\n\r\n", 400},
		{"bad name character", get + "X(: a\r\n\r\n", 400},
		{"NUL in value", get + "X: a\x00b\r\n\r\n", 400},
		{"DEL in value", get + "X: a\x7fb\r\n\r\n", 400},
		{"length twice, same", post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
		{"length twice, other", post + "Content-Length: 1\r\nContent-length: 2\r\n\r\n", 400},
		{"length list", post + "Content-Length: 1, 1\r\n\r\n", 400},
		{"length plus", post + "Content-Length: +1\r\n\r\n", 400},
		{"length minus", post + "Content-Length: -1\r\n\r\n", 400},
		{"length hex", post + "Content-Length: 0x1\r\n\r\n", 400},
		{"length empty", post + "Content-Length:\r\n\r\n", 400},
		{"length over int64", post + "Content-Length: 99999999999999999999999\r\n\r\n", 413},
		{"length over the limit", post + "Content-Length: 11\r\n\r\n", 413},
		{"CL.TE", post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"TE.CL", post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400},
		{"TE twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", 400},
		{"TE other alone", post + "Transfer-Encoding: gzip\r\n\r\n", 400},
		{"TE identity", post + "Transfer-Encoding: identity\r\n\r\n", 400},
		{"TE xchunked", post + "Transfer-Encoding: xchunked\r\n\r\n", 400},
		{"TE chunked twice", post + "Transfer-Encoding: chunked, chunked\r\n\r\n", 400},
		{"TE chunked not last", post + "Transfer-Encoding: chunked, gzip\r\n\r\n", 400},
		{"TE with empty element", post + "Transfer-Encoding: , chunked\r\n\r\n", 400},
		{"TE with parameter", post + "Transfer-Encoding: chunked;q=1\r\n\r\n", 400},
		{"TE with NUL", post + "Transfer-Encoding: chunked\x00\r\n\r\n", 400},
		{"TE with space before colon", post + "Transfer-Encoding : chunked\r\n\r\n", 400},
		{"TE folded", post + "Transfer-Encoding:\r\n chunked\r\n\r\n", 400},
		{"TE with bare LF", post + "X: y\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"TE with bare CR", post + "X: y\rTransfer-Encoding: chunked\r\n\r\n", 400},
		{"TE with underscore and CL", post + "Content-Length: 1\r\nTransfer_Encoding: chunked\r\nContent-Length: 2\r\n\r\n", 400},
		{"TE list", post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
		{"TE obfuscated with tab inside", post + "Transfer-Encoding: chun\tked\r\n\r\n", 400},
		{"TE quoted", post + "Transfer-Encoding: \"chunked\"\r\n\r\n", 400},
		{"TE empty", post + "Transfer-Encoding:\r\n\r\n", 400},
		{"TE with vertical tab", post + "Transfer-Encoding: \x0bchunked\r\n\r\n", 400},
		{"TE in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"trailer announces length", post + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n", 400},
		{"expectation unknown", post + "Expect: miracles\r\n\r\n", 417},
		{"request line over the limit", "GET /" + strings.Repeat("x", 27) + " HTTP/1.1\r\n", 414},
		{"request line without end", "GET /" + strings.Repeat("x", 37), 414},
		{"method over the limit", strings.Repeat("x", 41) + " / HTTP/1.1\r\n", 501},
		{"method at the limit", strings.Repeat("x", 40) + " / HTTP/1.1\r\n", 501},
		{"method that leaves no room for a target", strings.Repeat("x", 39) + " / HTTP/1.1\r\n", 414},
		{"method without end", strings.Repeat("x", 42), 501},
		{"method without end that is none", "x" + strings.Repeat("(", 41), 414},
		{"header over the limit", get + "X: " + strings.Repeat("x", 110) + "\r\n", 431},
		{"header without end", get + strings.Repeat("x", 112), 431},
		{"too many fields", get + "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n", 431},
		{"chunk size empty", chunked + "\r\n", 400},
		{"chunk size not hex", chunked + "g\r\n", 400},
		{"chunk size 0x", chunked + "0x1\r\n", 400},
		{"chunk size minus", chunked + "-1\r\n", 400},
		{"chunk size plus", chunked + "+1\r\n", 400},
		{"chunk size underscore", chunked + "1_0\r\n", 400},
		{"chunk size of sixteen digits", chunked + "0000000000000001\r\n", 400},
		{"chunk line without end", chunked + "1;" + strings.Repeat("x", 1100), 431},
		{"chunk extension with NUL", chunked + "1;a=\x00\r\nx\r\n", 400},
		{"chunk extension empty", chunked + "1;\r\nx\r\n", 400},
		{"chunk extensions empty", chunked + "1;;;;\r\nx\r\n", 400},
		{"chunk extension of spaces", chunked + "1; \r\nx\r\n", 400},
		{"chunk extension without semicolon", chunked + "1 a\r\nx\r\n", 400},
		{"chunk extension with a bad name", chunked + "1;a[=x\r\nx\r\n", 400},
		{"chunk extension without name", chunked + "1;=x\r\nx\r\n", 400},
		{"chunk extension with a quoted name", chunked + "1;\"a\"=x\r\nx\r\n", 400},
		{"chunk extension with two names", chunked + "1;a b\r\nx\r\n", 400},
		{"chunk extension without value", chunked + "1;a=\r\nx\r\n", 400},
		{"chunk extension without value, another behind it", chunked + "1;a=;b\r\nx\r\n", 400},
		{"chunk extension with two values", chunked + "1;a=b=c\r\nx\r\n", 400},
		{"chunk extension with a bad value", chunked + "1;a=(\r\nx\r\n", 400},
		{"chunk extension with an open quote", chunked + "1;a=\"x\r\nx\r\n", 400},
		{"chunk extension with an open escape", chunked + "1;a=\"x\\\r\nx\r\n", 400},
		{"chunk extension with an escaped quote at its end", chunked + "1;a=\"x\\\"\r\nx\r\n", 400},
		{"chunk extension with an escaped control character", chunked + "1;a=\"\\\x01\"\r\nx\r\n", 400},
		{"chunk extension with a quoted control character", chunked + "1;a=\"\x7f\"\r\nx\r\n", 400},
		{"chunk extension with text behind a quote", chunked + "1;a=\"b\"c\r\nx\r\n", 400},
		{"chunk extension with a quote inside a token", chunked + "1;a=b\"c\"\r\nx\r\n", 400},
		{"chunk extension and a space at the end", chunked + "1;a=b \r\nx\r\n", 400},
		{"last chunk with an empty extension", chunked + "0;\r\n\r\n", 400},
		{"chunk size leading space", chunked + " 1\r\n", 400},
		{"chunk size trailing space", chunked + "1 \r\n", 400},
		{"chunk size overflows", chunked + "10000000000000001\r\n", 400},
		{"chunk size bare LF", chunked + "1\nx\r\n", 400},
		{"chunk extension bare LF", chunked + "1;a\nx\r\n", 400},
		{"chunk extension bare CR", chunked + "1;a\rb\r\nx\r\n", 400},
		{"chunk over the limit", chunked + "b\r\n", 413},
		{"chunks over the limit", chunked + "a\r\n0123456789\r\n1\r\n", 413},
		{"chunk data too long", chunked + "1\r\nxy\r\n", 400},
		{"chunk data ends with LF", chunked + "1\r\nx\n", 400},
		{"trailer with length", chunked + "0\r\nContent-Length: 1\r\n\r\n", 400},
		{"trailer with coding", chunked + "0\r\ntransfer-encoding: chunked\r\n\r\n", 400},
		{"trailer with host", chunked + "0\r\nHost: b\r\n\r\n", 400},
		{"trailer folded", chunked + "0\r\nA: b\r\n c\r\n\r\n", 400},
		{"trailer malformed", chunked + "0\r\nX : y\r\n", 400},
		{"trailer bare LF", chunked + "0\r\n\n", 400},
		{"trailer too many", chunked + "0\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\n", 431},
		{"trailer over the limit", chunked + "0\r\nA: " + strings.Repeat("x", 120) + "\r\n", 431},
		{"extensions over the limit", chunked + "1;" + strings.Repeat("x", 100) + "\r\nx\r\n1;" + strings.Repeat("x", 100) + "\r\n", 431},
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range refusals() {
		t.Run(tt.name, func(t *testing.T) {
			m := everyWay(t, small, tt.in)
			if !m.failed() {
				t.Fatalf("accepted as\n%s", outcomes(m))
			}
			if e := m.out[len(m.out)-1].err; e.status != tt.status {
				t.Errorf("answered %d (%s), want %d", e.status, e.msg, tt.status)
			}
		})
	}
}

// The longest of everything that is still allowed is allowed.
func TestParseAtTheLimits(t *testing.T) {
	o := Options{MaxRequestLine: 40, MaxHeaderBytes: 60, MaxHeaderCount: 2, MaxBody: 10}
	line := "GET /" + strings.Repeat("x", 26) + " HTTP/1.1\r\n"
	fields := "Host: a\r\nX: " + strings.Repeat("y", 60-9-3-2-2) + "\r\n\r\n"
	m := everyWay(t, o, line+fields)
	if m.failed() || len(m.out) != 1 {
		t.Errorf("request of exactly the limits: %s", outcomes(m))
	}
}

// A client that sends one byte at a time must not make the parser look at the
// earlier bytes again.
func TestParseLooksAtEachByteOnce(t *testing.T) {
	m := newMachine(t, Options{})
	view := []byte(get + "X: " + strings.Repeat("y", 30000))
	for i := 1; i <= len(view); i++ {
		if n, err := m.head.feed(view[:i]); n != 0 || err != nil {
			t.Fatalf("at byte %d: %d, %v", i, n, err)
		}
		if m.head.scan != i {
			t.Fatalf("scan offset is %d after %d bytes", m.head.scan, i)
		}
	}
}

// Data is handed out no faster than there is room for it.
func TestBodyFrameRespectsRoom(t *testing.T) {
	for _, in := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
	} {
		m := newMachine(t, Options{})
		m.room = 3
		m.feedAll(in, func(left int) int { return left })
		if len(m.out) != 1 || m.out[0].body != "0123456789" {
			t.Errorf("%q: %s", in, outcomes(m))
		}
	}
}

// Extensions cost no memory, however many there are.
func TestChunkExtensionsAllocateNothing(t *testing.T) {
	m := newMachine(t, Options{})
	line := []byte("1 ; a = b;c=\"d\\\"e\"" + strings.Repeat(";x", 100) + "\r\n")
	n := testing.AllocsPerRun(100, func() {
		f := bodyFrame{opts: &m.opts, chunked: true, state: bodySizeLine, most: m.opts.MaxBody}
		if _, n, err := f.next(line, 1); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRequestErrorNamesLimitAndStatus(t *testing.T) {
	var err error = tooLarge(413, "body", 10)
	var re *requestError
	if !errors.As(err, &re) || err.Error() != "http1: body over the limit of 10 (413)" {
		t.Errorf("error is %q", err)
	}
}

func BenchmarkParseRequest(b *testing.B) {
	view := []byte("GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n")
	o, err := Options{}.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	var h head
	blank := &http.Request{URL: new(url.URL)}
	b.ReportAllocs()
	b.SetBytes(int64(len(view)))
	for b.Loop() {
		h.reset(&o)
		n, perr := h.feed(view)
		if perr != nil || n != len(view) {
			b.Fatal(n, perr)
		}
		r := blank.WithContext(context.Background())
		if perr := h.request(r, nil, string(view[:n])); perr != nil {
			b.Fatal(perr)
		}
	}
}

func BenchmarkParseChunk(b *testing.B) {
	view := []byte("400\r\n" + strings.Repeat("x", 1024) + "\r\n")
	o, err := Options{MaxBody: 1 << 60}.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	f := bodyFrame{opts: &o, chunked: true, state: bodySizeLine, most: o.MaxBody}
	b.ReportAllocs()
	b.SetBytes(int64(len(view)))
	for b.Loop() {
		for v := view; len(v) > 0; {
			_, n, perr := f.next(v, len(v))
			if perr != nil {
				b.Fatal(perr)
			}
			v = v[n:]
		}
	}
}

// TestPlainTargets: a URL that is filled without net/url is what url.ParseRequestURI makes of the target.
func TestPlainTargets(t *testing.T) {
	plain := 0
	check := func(target string) {
		var u url.URL
		if !plainTarget(&u, target) {
			if u != (url.URL{}) {
				t.Errorf("%q: refused, and left %#v", target, u)
			}
			return
		}
		plain++
		want, err := url.ParseRequestURI(target)
		if err != nil || u != *want {
			t.Errorf("%q: %#v, want %#v, %v", target, u, want, err)
		}
	}
	for _, target := range []string{"/", "/a/b.html", "/a?b=c&d=%20", "/a?", "/a??", "/a?b?c", "//host/a", "/a%20b", "/a!b", "*", "http://h/a", "/a;b:c@d,e=f$g&h+i", "/.", "/..", "/a//b", "/?x", "/a?[]{}|^`\"<>\\"} {
		check(target)
	}
	if plain < 10 {
		t.Errorf("%d targets are plain", plain)
	}
	for c := 0x21; c <= 0x7e; c++ {
		check("/a" + string(rune(c)) + "b")
		check("/?a" + string(rune(c)) + "b")
		check("/" + string(rune(c)))
	}
}
