package payload

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// vector is a file of testdata: lines of a key and a value, of which payload and pair may have several.
type vector struct {
	name    string
	payload []byte
	meta    []pair
	fields  map[string]string
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
			switch key, value, _ := strings.Cut(lines.Text(), " "); key {
			case "#":
			case "payload":
				v.payload = append(v.payload, unhex(t, value)...)
			case "pair":
				k, val, _ := strings.Cut(value, "=")
				v.meta = append(v.meta, pair{k, val})
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

func pairs(meta Pairs) (all []pair) {
	for key, value := range meta.All() {
		all = append(all, pair{string(key), string(value)})
	}
	return all
}

func TestPrefixVectors(t *testing.T) {
	for _, v := range vectors(t, "prefixes") {
		t.Run(v.name, func(t *testing.T) {
			p, err := ParsePrefix(v.payload)
			if err != nil {
				t.Fatal(err)
			}
			if got := strconv.Itoa(int(p.Timeout)); got != v.fields["timeout"] {
				t.Errorf("timeout %s, want %s", got, v.fields["timeout"])
			}
			if got := []string{"raw", "json", "protobuf"}[p.Codec]; got != v.fields["codec"] {
				t.Errorf("codec %s, want %s", got, v.fields["codec"])
			}
			if string(p.Key) != v.fields["service"] || string(p.Method) != v.fields["method"] {
				t.Errorf("service %q method %q, want %q %q", p.Key, p.Method, v.fields["service"], v.fields["method"])
			}
			if body := unhex(t, v.fields["body"]); !bytes.Equal(p.Body, body) {
				t.Errorf("body %X, want %X", p.Body, body)
			}
			meta := pairs(p.Meta)
			if len(meta) != len(v.meta) {
				t.Fatalf("metadata %v, want %v", meta, v.meta)
			}
			for i := range meta {
				if meta[i] != v.meta[i] {
					t.Errorf("pair %d is %v, want %v", i, meta[i], v.meta[i])
				}
			}
			again, err := AppendPrefix([]byte("before"), p.Timeout, p.Codec, string(p.Key), string(p.Method), meta)
			if err != nil {
				t.Fatal(err)
			}
			if again = append(again, p.Body...); !bytes.Equal(again, append([]byte("before"), v.payload...)) {
				t.Errorf("encoded as %X, want %X", again, v.payload)
			}
		})
	}
}

func TestBadPrefixes(t *testing.T) {
	for _, v := range vectors(t, "bad") {
		t.Run(v.name, func(t *testing.T) {
			if p, err := ParsePrefix(v.payload); err == nil || !strings.Contains(err.Error(), v.fields["error"]) {
				t.Errorf("%v with %+v, want an error of %q", err, p, v.fields["error"])
			}
		})
	}
}

// TestPrefixLimit: a prefix of 16 KiB is taken and written, one byte more is neither; a body does not count.
func TestPrefixLimit(t *testing.T) {
	for _, more := range []int{0, 1} {
		for _, body := range []int{0, 100} {
			// "/i:", "m" and one pair with an empty key.
			value := strings.Repeat("x", MaxPrefix-(4+1+1+2+3+2+1+2+2+2)+more)
			b := binary.BigEndian.AppendUint32(nil, 5)
			b = append(b, "\x00\x00\x00\x03/i:\x00\x01m\x00\x01\x00\x00"...)
			b = binary.BigEndian.AppendUint16(b, uint16(len(value)))
			b = append(b, value...)
			if len(b) != MaxPrefix+more {
				t.Fatalf("the test's prefix has %d bytes", len(b))
			}
			p, err := ParsePrefix(append(b, make([]byte, body)...))
			out, outErr := AppendPrefix(nil, 5, Raw, "/i:", "m", []pair{{"", value}})
			if more == 0 {
				if err != nil || len(p.Body) != body || outErr != nil || !bytes.Equal(out, b) {
					t.Errorf("at the limit: %v, body of %d; %v", err, len(p.Body), outErr)
				}
			} else if !errors.Is(err, errPrefixLong) || outErr == nil || len(out) != 0 {
				t.Errorf("above the limit: %v; %v with %d bytes", err, outErr, len(out))
			}
		}
	}
}

func TestPrefixTimeout(t *testing.T) {
	for d, want := range map[time.Duration]uint32{
		-1: 0, 0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Hour: 3600000, 1 << 62: 1<<32 - 1,
	} {
		if got := Timeout(d); got != want {
			t.Errorf("%v is %d ms, want %d", d, got, want)
		}
	}
}

func TestParsePrefixAllocatesNothing(t *testing.T) {
	v := vectors(t, "prefixes")
	if n := testing.AllocsPerRun(100, func() {
		for i := range v {
			if _, err := ParsePrefix(v[i].payload); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzPrefix parses any payload and compares with a parser as plain as the specification.
func FuzzPrefix(f *testing.F) {
	for _, kind := range []string{"prefixes", "bad"} {
		for _, v := range vectors(f, kind) {
			f.Add(v.payload)
		}
	}
	f.Add(append([]byte("\x00\x00\x00\x00\x00\x00\x40\x00"), make([]byte, MaxPrefix+20)...))
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, err := ParsePrefix(payload)
		size, ok := plainPrefix(payload)
		if ok != (err == nil) {
			t.Fatalf("%X: %v, and the plain parser says %v", payload, err, ok)
		}
		if err != nil {
			return
		}
		if len(p.Body) != len(payload)-size {
			t.Fatalf("a body of %d bytes behind %d of %d", len(p.Body), size, len(payload))
		}
		again, err := AppendPrefix(nil, p.Timeout, p.Codec, string(p.Key), string(p.Method), pairs(p.Meta))
		if err != nil || !bytes.Equal(append(again, p.Body...), payload) {
			t.Fatalf("%X is encoded as %X: %v", payload, again, err)
		}
	})
}

// plainPrefix returns the length of the prefix of a payload, byte by byte.
func plainPrefix(b []byte) (size int, ok bool) {
	at := 0
	number := func(n int) (v int) {
		for range n {
			v <<= 8
			if at < len(b) {
				v |= int(b[at])
			}
			at++
		}
		return v
	}
	number(4)
	if codec := number(1); codec > 2 {
		return 0, false
	}
	if flags := number(1); flags != 0 {
		return 0, false
	}
	at += number(2)
	at += number(2)
	for n := number(2); n > 0 && at <= len(b); n-- {
		at += number(2)
		at += number(2)
	}
	return at, at <= len(b) && at <= MaxPrefix
}
