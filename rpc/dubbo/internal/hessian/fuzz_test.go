package hessian

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	hessian2 "github.com/apache/dubbo-go-hessian2"
)

// outcome is what the decoder made of a message.
type outcome struct {
	value     any
	rest      int    // bytes that it has not read
	ok        bool   // neither error nor panic
	foul      string // what Check promises to prevent
	allocated int
}

// decode decodes a value. Panics that come from types that do not fit are no foul.
func decode(b []byte) (out outcome) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d := hessian2.NewDecoderSize(b, len(b)+16)
	func() {
		defer func() {
			if p := recover(); p != nil && !isTypePanic(p) {
				out.foul = fmt.Sprint("panic: ", p)
			}
		}()
		v, err := d.Decode()
		if out.value, out.ok = v, err == nil; err != nil {
			out.foul = fmt.Sprint("error: ", err) // under an unknown field, the decoder would go on in the wrong place
		}
	}()
	runtime.ReadMemStats(&after)
	out.allocated = int(after.TotalAlloc - before.TotalAlloc)
	out.rest = d.Buffered()
	return out
}

// isTypePanic reports whether the panic comes from a value whose type does not fit where it stands, or from strictColour.
func isTypePanic(p any) bool {
	if _, ok := p.(*reflect.ValueError); ok {
		return true
	}
	if _, ok := p.(*runtime.TypeAssertionError); ok {
		return true
	}
	s := fmt.Sprint(p)
	return p == unknownConstant || strings.HasPrefix(s, "reflect") || strings.Contains(s, "hash of unhashable type")
}

// reencode encodes a decoded value. The encoder has bugs of its own, so an error is no fault.
func reencode(v any) (b []byte) {
	defer func() {
		if recover() != nil {
			b = nil
		}
	}()
	e := hessian2.NewEncoder()
	if e.Encode(v) != nil {
		return nil
	}
	return e.Buffer()
}

func FuzzCheck(f *testing.F) {
	for _, b := range encodings(f) {
		if len(b) < 2000 {
			f.Add(b)
		}
	}
	for _, s := range []string{
		"\x7f\x78\x79N\x70\x00\x71\x01xN\x57Z\x55\x01yNZV\x01z\x90", "\x7c\x70\x01xM\x01yZ\x71\x90NM\x91TNZ", "HN\x51\x90Z",
		"H\x01a\x51\x90\x01b" + classDef(throwableClass, "stackTrace") + "\x51\x90Z",
		classDef(throwableClass, "novel", "cause") + "\x06WWWWWW\x60N\x51\x91",
		classDef("\x10eddy.test.Colour", "name") + "\x05GREEN", classDef("\x0djava.sql.Date", "value") + "K\x00\x00\x00\x01",
		classDef(nodeClass, "table", "children", "raw", "any") + "H\x01a\x90Z\x79\x60NNNN\x21x\x78",
		"M\x01xC\x01c\x91\x01f\x60\x00N\x51\x91TZ",
	} {
		f.Add([]byte(s))
	}
	limits := Limits{Depth: 8, Values: 2000, Classes: 8, Fields: 16}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			return
		}
		rest, err := Check(b, 1, limits)
		if err != nil {
			if !strings.Contains(err.Error(), "offset ") {
				t.Fatalf("error %v", err)
			}
			return
		}
		out := decode(b)
		if out.foul != "" {
			t.Fatal(out.foul)
		}
		if most := 128<<10 + 1024*(len(b)-len(rest)); out.allocated > most {
			t.Fatalf("%d bytes allocated for %d", out.allocated, len(b)-len(rest))
		}
		if !out.ok {
			return
		}
		if out.rest != len(rest) {
			t.Fatalf("the decoder leaves %d bytes, Check %d", out.rest, len(rest))
		}
		if bytes.IndexByte(b, 0x51) >= 0 {
			return // the encoder does not come to an end with each value that contains itself
		}
		again := reencode(out.value)
		if again == nil {
			return
		}
		if rest, err := Check(again, 1, Limits{Values: 1 << 20}); err != nil || len(rest) > 0 {
			if second := decode(again); second.ok && second.rest == 0 {
				t.Fatalf("re-encoded as %x: rest of %d, error %v", again, len(rest), err)
			}
		}
	})
}
