package tlsx

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"sync"
	"unsafe"
)

// crypto/tls keeps the buffer that it has read records into, which is as large as the largest record it has met, and that
// of handshake messages: 3.6 KB of an idle connection's 7.4 KB after a handshake, and 20 KB after one record of 16 KiB.
// Since it is given whole records here, both are empty between two reads. So a buffer is lent to it for the time of a
// read, and the other is dropped after the handshake.
//
// The fields are not exported. Where the *tls.Conn of another release of Go has not exactly these, it keeps its buffers
// and everything works as before; TestBuffersAreLent says when that comes.

// fields are where in a tls.Conn its buffers lie.
type fields struct {
	raw   uintptr // bytes.Buffer: raw input, starting with a record header
	input uintptr // bytes.Reader: application data in raw
	hand  uintptr // bytes.Buffer: handshake messages
	known bool
}

// layout returns the fields, as far as they are what they were.
var layout = sync.OnceValue(func() fields {
	t := reflect.TypeFor[tls.Conn]()
	raw, ok1 := t.FieldByName("rawInput")
	input, ok2 := t.FieldByName("input")
	hand, ok3 := t.FieldByName("hand")
	buffer, reader := reflect.TypeFor[bytes.Buffer](), reflect.TypeFor[bytes.Reader]()
	if !ok1 || !ok2 || !ok3 || raw.Type != buffer || input.Type != reader || hand.Type != buffer {
		return fields{}
	}
	return fields{raw.Offset, input.Offset, hand.Offset, true}
})

// lentSize is room for any record, and for what crypto/tls wants beyond it to read into.
const lentSize = maxRecord + 2*bytes.MinRead

var lentBuffers = sync.Pool{New: func() any { return new([lentSize]byte) }}

// lend gives c a buffer to read into, unless it has bytes in its own; nil for none.
func lend(c *tls.Conn) *[lentSize]byte {
	f := layout()
	if !f.known {
		return nil
	}
	raw := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), f.raw))
	if raw.Len() > 0 {
		return nil
	}
	b := lentBuffers.Get().(*[lentSize]byte)
	*raw = *bytes.NewBuffer(b[:0])
	return b
}

// takeBack ends lend. Bytes that are left, of which there are none when whole records were read, move to a buffer of c.
func takeBack(c *tls.Conn, b *[lentSize]byte) {
	if b == nil {
		return
	}
	f := layout()
	raw := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), f.raw))
	input := (*bytes.Reader)(unsafe.Add(unsafe.Pointer(c), f.input))
	if input.Len() > 0 { // it lies in b, which c keeps then
		return
	}
	input.Reset(nil)
	if raw.Len() > 0 {
		*raw = *bytes.NewBuffer(bytes.Clone(raw.Bytes()))
	} else {
		*raw = bytes.Buffer{}
	}
	lentBuffers.Put(b)
}

// shed drops what c has read the handshake into.
func shed(c *tls.Conn) {
	f := layout()
	if !f.known {
		return
	}
	for _, at := range []uintptr{f.raw, f.hand} {
		if b := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), at)); b.Len() == 0 {
			*b = bytes.Buffer{}
		}
	}
}
