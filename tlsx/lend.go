package tlsx

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"sync"
	"unsafe"
)

// crypto/tls keeps its buffer for records, which is as large as the largest record so far, and its buffer for handshake
// messages. They are 3.6 KB of an idle connection's 7.4 KB after a handshake, and 20 KB after one record of 16 KiB.
// It is given whole records here, so both are empty between two reads. A buffer for records is therefore lent to it for
// one read, and the other buffer is dropped after the handshake.
//
// The fields are not exported. If a release of Go changes them, the *tls.Conn keeps its buffers and everything works as
// before. TestBuffersAreLent then fails.

// fields are the offsets of the buffers in a tls.Conn.
type fields struct {
	raw   uintptr // bytes.Buffer: raw input, starting with a record header
	input uintptr // bytes.Reader: application data in raw
	hand  uintptr // bytes.Buffer: handshake messages
	known bool
}

// layout returns the fields; known is false if their names or types have changed.
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

// lend gives c a buffer to read into. It returns nil if it gave none, because c has bytes in its own buffer or the
// fields are not known.
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

// takeBack ends lend. Bytes that are left move to a buffer of c's own; there are none when whole records were read.
func takeBack(c *tls.Conn, b *[lentSize]byte) {
	if b == nil {
		return
	}
	f := layout()
	raw := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), f.raw))
	input := (*bytes.Reader)(unsafe.Add(unsafe.Pointer(c), f.input))
	if input.Len() > 0 { // the input lies in b, so c keeps b
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

// shed drops the buffers that c has used for the handshake.
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
