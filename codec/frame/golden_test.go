package frame

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// vector is a file of testdata: lines of a key and a value, of which frame and answer may have several.
type vector struct {
	name          string
	frame, answer []byte
	fields        map[string]string
}

func vectors(t testing.TB, kind string) []vector {
	t.Helper()
	files, err := filepath.Glob("testdata/" + kind + "/*.hex")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	var all []vector
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		v := vector{name: strings.TrimSuffix(filepath.Base(path), ".hex"), fields: map[string]string{}}
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
			key, value, _ := strings.Cut(lines.Text(), " ")
			switch key {
			case "#":
			case "frame":
				v.frame = append(v.frame, unhex(t, value)...)
			case "answer":
				v.answer = append(v.answer, unhex(t, value)...)
			default:
				v.fields[key] = value
			}
		}
		all = append(all, v)
	}
	return all
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (v *vector) number(t testing.TB, key string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(v.fields[key], 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", v.name, err)
	}
	return n
}

// checkPrefixes shows that each beginning of a frame asks for more, and what follows it changes nothing.
func checkPrefixes(t *testing.T, d *decoder, whole []byte) {
	t.Helper()
	for n := range whole {
		if total, v := d.measure(whole[:n]); v != nil || total != 0 && (n < HeaderSize || total != len(whole)) {
			t.Errorf("after %d of %d bytes: %d, %v", n, len(whole), total, v)
		}
	}
	for _, more := range []string{"", "\x00", "another frame"} {
		if total, v := d.measure(append(bytes.Clone(whole), more...)); v != nil || total != len(whole) {
			t.Errorf("with %q behind it: %d, %v, want %d", more, total, v, len(whole))
		}
	}
}

func TestRequestVectors(t *testing.T) {
	d := newDecoder(request, nil)
	for _, v := range vectors(t, "requests") {
		t.Run(v.name, func(t *testing.T) {
			id, op, payload := v.number(t, "id"), Op(v.number(t, "op")), unhex(t, v.fields["payload"])
			if got := AppendRequest(nil, id, op, payload); !bytes.Equal(got, v.frame) {
				t.Errorf("encoded\n%X, want\n%X", got, v.frame)
			}
			checkPrefixes(t, d, v.frame)
			f := decodeAlone(t, d, v.frame)
			if f.ID != id || f.Op() != op || !bytes.Equal(f.Payload, payload) {
				t.Errorf("decoded %d %v %x", f.ID, f.Op(), f.Payload)
			}
		})
	}
}

func TestResponseVectors(t *testing.T) {
	d := newDecoder(response, nil)
	seen := map[Status]bool{}
	for _, v := range vectors(t, "responses") {
		t.Run(v.name, func(t *testing.T) {
			id, status := v.number(t, "id"), Status(v.number(t, "status"))
			seen[status] = true
			checkPrefixes(t, d, v.frame)
			f := decodeAlone(t, d, v.frame)
			if f.ID != id || f.Status() != status {
				t.Errorf("decoded %d %v", f.ID, f.Status())
			}
			if status == StatusOK {
				payload := unhex(t, v.fields["payload"])
				if got := AppendResponse(nil, id, payload); !bytes.Equal(got, v.frame) || f.Err() != nil || !bytes.Equal(f.Payload, payload) {
					t.Errorf("encoded %X, decoded %v, %x", got, f.Err(), f.Payload)
				}
				return
			}
			want := StatusError{status, time.Duration(v.number(t, "retry")) * time.Millisecond, v.fields["message"], string(unhex(t, v.fields["details"]))}
			if got := AppendError(nil, id, &want); !bytes.Equal(got, v.frame) {
				t.Errorf("encoded\n%X, want\n%X", got, v.frame)
			}
			if e, ok := f.Err().(*StatusError); !ok || *e != want {
				t.Errorf("decoded %v, want %v", f.Err(), &want)
			}
		})
	}
	for s := range statusNames {
		if !seen[s] {
			t.Errorf("no vector has the status %v", s)
		}
	}
}

// TestViolationVectors: each violation is found with the byte that decides, not before, and whatever comes behind it.
func TestViolationVectors(t *testing.T) {
	d := newDecoder(request, nil)
	seen := map[Violation]bool{}
	for _, v := range vectors(t, "violations") {
		t.Run(v.name, func(t *testing.T) {
			for n := range v.frame {
				if total, e := d.measure(v.frame[:n]); e != nil || total != 0 {
					t.Errorf("after %d of %d bytes: %d, %v", n, len(v.frame), total, e)
				}
			}
			for _, more := range []string{"", "\x00", strings.Repeat("\xff", 100)} {
				_, e := d.measure(append(bytes.Clone(v.frame), more...))
				if e == nil {
					t.Fatalf("taken with %q behind it", more)
				}
				seen[e.What] = true
				if got := AppendError(nil, e.ID, &StatusError{Status: e.status(), Message: e.text()}); !bytes.Equal(got, v.answer) {
					t.Errorf("answer with %q behind it\n%X, want\n%X", more, got, v.answer)
				}
				if got := e.reason().String(); got != v.fields["reason"] {
					t.Errorf("reason %s, want %s", got, v.fields["reason"])
				}
			}
		})
	}
	if len(seen) != int(PayloadTooLong)+1 {
		t.Errorf("vectors for %d of %d violations", len(seen), PayloadTooLong+1)
	}
}

// decodeAlone returns the frame that is all of b, as Decode would fire it.
func decodeAlone(t testing.TB, d *decoder, b []byte) *Frame {
	t.Helper()
	total, v := d.measure(b)
	if v != nil || total != len(b) {
		t.Fatalf("%d, %v", total, v)
	}
	return d.frame(b)
}

func TestErrorMessages(t *testing.T) {
	long := strings.Repeat("x", maxMessage-1) + "人"
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"人工", "人工"}, {"a\xffb", "a\uFFFDb"}, {strings.Repeat("x", maxMessage), strings.Repeat("x", maxMessage)},
		{long, long[:maxMessage-1]},
	} {
		b := AppendError(nil, 1, &StatusError{Status: StatusAppError, Message: c.in})
		e, ok := decodeAlone(t, newDecoder(response, nil), b).Err().(*StatusError)
		if !ok || e.Message != c.want {
			t.Errorf("%.10q… became %v", c.in, e)
		}
	}
	for d, want := range map[time.Duration]uint32{-1: 0, 0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1 << 62: 1<<32 - 1} {
		if got := retryMillis(d); got != want {
			t.Errorf("%v is %d ms, want %d", d, got, want)
		}
	}
	for _, p := range []string{"", "12345", "\x00\x00\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x02x", "\x00\x00\x00\x00\x00\x01\xff"} {
		f := &Frame{Code: uint8(StatusBusy), Payload: []byte(p)}
		if _, ok := f.Err().(*StatusError); ok || f.Err() == nil {
			t.Errorf("the payload %q is taken for an error: %v", p, f.Err())
		}
	}
}
