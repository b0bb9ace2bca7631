package webwire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
)

func TestContentTypes(t *testing.T) {
	for value, want := range map[string]struct {
		form Form
		grpc string
	}{
		"application/json":                    {Unary, "application/grpc+json"},
		"Application/JSON; charset=\"UTF-8\"": {Unary, "application/grpc+json"},
		"application/connect+proto":           {Stream, "application/grpc+proto"},
		"application/grpc-web":                {GRPC, "application/grpc"},
		"application/grpc-web-text+proto":     {GRPCText, "application/grpc+proto"},
	} {
		if form, grpc, ok := ParseContentType(value); !ok || form != want.form || grpc != want.grpc {
			t.Errorf("%s: %d %s %v", value, form, grpc, ok)
		}
	}
	for _, value := range []string{"", "application/grpc", "application/connect", "application/json; charset=utf-16", "application/json;;", "text/plain"} {
		if _, _, ok := ParseContentType(value); ok {
			t.Errorf("%q is taken", value)
		}
	}
	for name := range contentTypes {
		if !strings.Contains(AcceptPost+",", name+",") {
			t.Errorf("AcceptPost lacks %s", name)
		}
	}
}

func TestTimeouts(t *testing.T) {
	for value, want := range map[string]time.Duration{"0": 0, "1": time.Millisecond, "9999999999": 9999999999 * time.Millisecond} {
		if d, err := ParseTimeout(value); d != want || err != nil {
			t.Errorf("%s: %v, %v", value, d, err)
		}
	}
	for _, value := range []string{"", "-1", "+1", "1s", "10000000000", "0x1"} {
		if d, err := ParseTimeout(value); err == nil {
			t.Errorf("%q is %v", value, d)
		}
	}
}

func TestCodes(t *testing.T) {
	for code, want := range map[uint32]int{0: 200, 1: 499, 3: 400, 8: 429, 16: 401, 17: 500, 1 << 31: 500} {
		if got := HTTPStatus(code); got != want {
			t.Errorf("%d: %d, want %d", code, got, want)
		}
	}
}

func TestEnds(t *testing.T) {
	status := grpcwire.Status{Code: 5, Message: "m", Details: []grpcwire.Any{{TypeURL: "type.googleapis.com/a.B", Value: []byte{1, 2}}}}
	e := ParseEnd([]Field{{"grpc-status", "5"}, {"grpc-message", "no %22it%22 <b>"}, {"grpc-status-details-bin", grpcwire.EncodeBinary(string(status.Append(nil)))},
		{"grpc-retry-pushback-ms", "1001"}, {"x-a", "1"}, {"x-a", "2"}})
	const failed = `{"code":"not_found","message":"no \"it\" <b>","details":[{"type":"a.B","value":"AQI"}]}`
	if got := string(e.Error()); got != failed {
		t.Errorf("%s", got)
	}
	if e.RetryAfter != 2 {
		t.Errorf("%d s", e.RetryAfter)
	}
	const last = `{"error":` + failed + `,"metadata":{"x-a":["1","2"]}}`
	if got := e.Last(); got[0] != 2 || int(got[4]) != len(last) || string(got[5:]) != last {
		t.Errorf("%q", got)
	}
	ok := ParseEnd([]Field{{"grpc-status", "0"}})
	if got := string(ok.Last()); got != "\x02\x00\x00\x00\x02{}" {
		t.Errorf("%q", got)
	}
	odd := ParseEnd([]Field{{"grpc-status", "x"}, {"grpc-status-details-bin", "?"}})
	if got := string(odd.Error()); got != `{"code":"unknown"}` {
		t.Errorf("%s", got)
	}
	if got := string(Trailer([]Field{{"grpc-status", "0"}, {"x-a", "1"}})); got != "\x80\x00\x00\x00\x18grpc-status: 0\r\nx-a: 1\r\n" {
		t.Errorf("%q", got)
	}
}

func TestGets(t *testing.T) {
	for query, want := range map[string]Get{
		"encoding=json&message=a":                                   {"application/json", "", []byte("a")},
		"connect=v1&encoding=proto&message=_w&base64=1":             {"application/proto", "", []byte{0xff}},
		"encoding=proto&message=_w%3D%3D&base64=1&compression=gzip": {"application/proto", "gzip", []byte{0xff}},
		"encoding=proto&message=&base64=0":                          {"application/proto", "", nil},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if g, err := ParseGet(q); err != nil || g.ContentType != want.ContentType || g.Compression != want.Compression || !bytes.Equal(g.Message, want.Message) {
			t.Errorf("%s: %+v, %v", query, g, err)
		}
	}
}

func TestTextReader(t *testing.T) {
	in64 := base64.StdEncoding.EncodeToString
	big := strings.Repeat("abcdefg", 3000)
	pieces := in64([]byte("a")) + in64([]byte("bc")) + in64([]byte("def")) + in64([]byte(big))
	for name, r := range map[string]io.Reader{
		"at once":      strings.NewReader(pieces),
		"byte by byte": iotest.OneByteReader(strings.NewReader(pieces)),
		"with the end": iotest.DataErrReader(strings.NewReader(pieces)),
	} {
		if b, err := io.ReadAll(NewTextReader(r)); err != nil || string(b) != "abcdef"+big {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	for in, want := range map[string]error{"YWI": io.ErrUnexpectedEOF, "YW??": errText, "YWJj=AAA": errText, "": nil} {
		b, err := io.ReadAll(NewTextReader(strings.NewReader(in)))
		if !errors.Is(err, want) || len(b) > 3 {
			t.Errorf("%q: %q, %v", in, b, err)
		}
	}
	failed := errors.New("failed")
	if b, err := io.ReadAll(NewTextReader(io.MultiReader(strings.NewReader("YWJj"), iotest.ErrReader(failed)))); string(b) != "abc" || !errors.Is(err, failed) {
		t.Errorf("%q, %v", b, err)
	}
}

// FuzzTextReader: the reader gives what base64 of pieces stands for, however it comes.
func FuzzTextReader(f *testing.F) {
	f.Add([]byte("a"), []byte("bc"), "YWI=")
	f.Fuzz(func(t *testing.T, a, b []byte, any string) {
		text := base64.StdEncoding.EncodeToString(a) + base64.StdEncoding.EncodeToString(b)
		got, err := io.ReadAll(NewTextReader(iotest.HalfReader(strings.NewReader(text))))
		if err != nil || !bytes.Equal(got, append(a[:len(a):len(a)], b...)) {
			t.Errorf("%q, %v", got, err)
		}
		whole, err := io.ReadAll(NewTextReader(strings.NewReader(any)))
		slow, slowErr := io.ReadAll(NewTextReader(iotest.OneByteReader(strings.NewReader(any))))
		if !bytes.Equal(whole, slow) || (err == nil) != (slowErr == nil) {
			t.Errorf("%q, %v; byte by byte %q, %v", whole, err, slow, slowErr)
		}
	})
}

// FuzzEnd: whatever a method says of its error, the answer is JSON.
func FuzzEnd(f *testing.F) {
	f.Add("5", "no %C3%BC", "CAUSAW0", "x-a", "1")
	f.Fuzz(func(t *testing.T, status, message, details, name, value string) {
		e := ParseEnd([]Field{{"grpc-status", status}, {"grpc-message", message}, {"grpc-status-details-bin", details}, {name, value}})
		if last := e.Last(); !json.Valid(e.Error()) || !json.Valid(last[grpcwire.PrefixLen:]) {
			t.Errorf("%q", last)
		}
	})
}
