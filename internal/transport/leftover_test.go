package transport

import (
	"bytes"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// TestLeftover: bytes come out as they went in, whatever memory they have moved through.
func TestLeftover(t *testing.T) {
	pool, scratch := buf.NewPool(1<<20), make([]byte, 64<<10)
	var o Leftover
	if o.Held() || o.Len() != 0 || o.Memory() != 0 || o.Stage(pool, scratch) != 0 {
		t.Fatalf("the zero value holds %d bytes", o.Len())
	}
	o.Keep(pool, []byte("abc"))
	if n := o.Stage(pool, scratch); n != 3 || string(scratch[:n]) != "abc" || o.Held() {
		t.Fatalf("a small leftover: %d bytes in front, held %v", n, o.Held())
	}
	want := bytes.Repeat([]byte("0123456789"), 500)
	o.Keep(pool, want)
	if n := o.Stage(pool, scratch); n != 0 || len(o.Free()) < minReadSpace {
		t.Fatalf("a large leftover: %d bytes in front, room for %d behind", n, len(o.Free()))
	}
	more := bytes.Repeat([]byte("x"), 200_000)
	read := copy(o.Free(), more)
	o.Commit(read)
	o.Add(pool, more[read:])
	if want = append(want, more...); !bytes.Equal(o.Bytes(), want) {
		t.Fatalf("%d bytes, want %d", o.Len(), len(want))
	}
	o.Consume(pool, len(want)-7)
	o.Trim(pool)
	if string(o.Bytes()) != "xxxxxxx" || o.Memory() > RoomyFactor*buf.MinSegment {
		t.Errorf("seven bytes are %q in %d", o.Bytes(), o.Memory())
	}
	kept := o.Memory()
	if o.Trim(pool); o.Memory() != kept || o.Len() != 7 {
		t.Errorf("a fitting segment was changed for one of %d", o.Memory())
	}
}

// TestLeftoverGivesBack: each segment that a leftover leaves goes back to the pool.
func TestLeftoverGivesBack(t *testing.T) {
	for name, leave := range map[string]func(o *Leftover, pool *buf.Pool){
		"staged":   func(o *Leftover, pool *buf.Pool) { o.Stage(pool, make([]byte, 64<<10)) },
		"consumed": func(o *Leftover, pool *buf.Pool) { o.Consume(pool, o.Len()) },
		"dropped":  func(o *Leftover, pool *buf.Pool) { o.Drop(pool) },
		"grown":    func(o *Leftover, pool *buf.Pool) { o.Add(pool, make([]byte, 4<<10)) },
		"trimmed":  func(o *Leftover, pool *buf.Pool) { o.Trim(pool) },
	} {
		pool, o := buf.NewPool(1<<20), Leftover{}
		o.Keep(pool, make([]byte, 1000))
		left := o.Memory()
		if name == "trimmed" {
			o.Add(pool, make([]byte, 64<<10))
			o.Consume(pool, o.Len()-1)
			left += o.Memory()
		}
		if leave(&o, pool); pool.Retained() != left {
			t.Errorf("%s: the pool has %d bytes back, want %d", name, pool.Retained(), left)
		}
		o.Drop(pool)
		if o.Drop(pool); o.Held() {
			t.Errorf("%s: held after the drop", name)
		}
	}
}
