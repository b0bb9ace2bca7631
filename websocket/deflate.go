package websocket

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

// shelf keeps a bounded number of things for reuse.
type shelf[T any] struct {
	most int
	mu   sync.Mutex
	free []*T
}

// get returns a kept thing, nil for none.
func (s *shelf[T]) get() *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 {
		return nil
	}
	v := s.free[n-1]
	s.free[n-1] = nil
	s.free = s.free[:n-1]
	return v
}

func (s *shelf[T]) put(v *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) < s.most {
		s.free = append(s.free, v)
	}
}

// deflater compresses one message at a time.
type deflater struct {
	w   *flate.Writer
	out []byte // room for a header, then what was compressed
}

// Write implements io.Writer for w.
func (z *deflater) Write(p []byte) (int, error) {
	z.out = append(z.out, p...)
	return len(p), nil
}

// getDeflater returns a deflater for the window, nil when enough are in use.
func (z *Compression) getDeflater(bits int) *deflater {
	if z.busy.Add(1) > int64(z.o.Compressors) {
		z.busy.Add(-1)
		z.skipped.Add(1)
		return nil
	}
	if d := z.deflaters[bits].get(); d != nil {
		return d
	}
	d := new(deflater)
	if bits < maxWindowBits {
		d.w, _ = flate.NewWriterWindow(d, 1<<bits) // sizes and levels were checked
	} else {
		d.w, _ = flate.NewWriter(d, z.o.Level)
	}
	return d
}

func (z *Compression) putDeflater(d *deflater, bits int) {
	if cap(d.out) > keptCompressedCapacity {
		d.out = nil
	}
	z.deflaters[bits].put(d)
	z.busy.Add(-1)
}

// syncTail is the end of every flush of the compressor. It is not sent (RFC
// 7692 section 7.2.1).
const syncTail = "\x00\x00\xff\xff"

// compress returns a compressed frame of a message that may refer to dict, and
// the size of its payload. The frame is valid until the deflater is put back.
// It is nil when it would not be shorter than the message.
func (d *deflater) compress(op Opcode, data, dict []byte) (frame []byte, payload int) {
	d.out = append(d.out[:0], make([]byte, maxServerHeader)...)
	if len(dict) > 0 {
		d.w.ResetDict(d, dict)
	} else {
		d.w.ResetDict(d, nil)
	}
	if _, err := d.w.Write(data); err != nil {
		return nil, 0
	}
	if err := d.w.Flush(); err != nil {
		return nil, 0
	}
	body := d.out[maxServerHeader:]
	body = body[:len(body)-len(syncTail)]
	if len(body) >= len(data) {
		return nil, 0
	}
	var h [maxServerHeader]byte
	head := appendHeader(h[:0], first(op)|rsv1Bit, len(body))
	at := maxServerHeader - len(head)
	copy(d.out[at:], head)
	return d.out[at : maxServerHeader+len(body)], len(body)
}

// inflater decompresses one message at a time, in steps.
type inflater struct {
	r       io.ReadCloser
	in      source
	out     []byte
	streams int
}

// source is the compressed message followed by inflateTail. It hands out single
// bytes, so that the decompressor takes no more than it needs. It also bounds
// the bytes for each piece of output.
type source struct {
	b    []byte
	at   int
	stop int // the current read ends here
}

// These constants bound the work for a compressed message of empty or almost
// empty blocks, which would keep the decompressor busy for little output.
// inputPerRead bounds its input for one piece of output of at most 32 KiB,
// inputPerStep its input in one step. maxStreams bounds the streams of a message.
const (
	inputPerRead = 128 << 10
	inputPerStep = 64 << 10
	maxStreams   = 8
)

var errSparse = errors.New("websocket: compressed message of empty blocks")

// inflateTail is the tail that the sender left out, and a block that ends the
// stream.
const inflateTail = syncTail + "\x01\x00\x00\xff\xff"

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if s.at == s.stop {
		return 0, s.end()
	}
	n := copy(p, s.b[s.at:s.stop])
	s.at += n
	return n, nil
}

// ReadByte implements io.ByteReader.
func (s *source) ReadByte() (byte, error) {
	if s.at == s.stop {
		return 0, s.end()
	}
	s.at++
	return s.b[s.at-1], nil
}

func (s *source) end() error {
	if s.at < len(s.b) {
		return errSparse
	}
	return io.EOF
}

func (s *source) left() int { return len(s.b) - s.at }

// getInflater returns an inflater for a message that refers to dict.
func (z *Compression) getInflater(msg, dict []byte) *inflater {
	f := z.inflaters.get()
	if f == nil {
		f = new(inflater)
		f.r = flate.NewReader(&f.in)
	}
	f.in.b = append(append(f.in.b[:0], msg...), inflateTail...)
	f.in.at = 0
	f.out, f.streams = f.out[:0], 0
	f.restart(dict)
	return f
}

func (f *inflater) restart(dict []byte) {
	_ = f.r.(flate.Resetter).Reset(&f.in, dict) // it has no way to fail
}

func (z *Compression) putInflater(f *inflater) {
	if cap(f.out) > maxKeptInflated {
		f.out = nil
	}
	if cap(f.in.b) > maxKeptInflated {
		f.in.b = nil
	}
	z.inflaters.put(f)
}

var (
	errInflate = &violation{CloseInvalidPayload, "compressed data is invalid"}
	errBomb    = errors.New("websocket: message inflates beyond the limit")
)

// step inflates about inflateStep more bytes into out. done says that the
// message is complete. The error is errBomb as soon as out holds more than
// limit bytes; other errors mean that the data is invalid.
func (f *inflater) step(limit int, dict []byte) (done bool, err error) {
	until, from := len(f.out)+inflateStep, f.in.at
	for len(f.out) < until && f.in.at-from < inputPerStep {
		if len(f.out) == cap(f.out) {
			f.grow(limit)
		}
		room := f.out[len(f.out):cap(f.out)]
		f.in.stop = min(len(f.in.b), f.in.at+inputPerRead)
		n, err := f.r.Read(room)
		f.out = f.out[:len(f.out)+n]
		if len(f.out) > limit {
			return false, errBomb
		}
		if err == nil {
			continue
		}
		if err != io.EOF { //nolint:errorlint // io.Reader returns it bare
			return false, err
		}
		switch left := f.in.left(); {
		case left == 0, left == len(inflateTail):
			return true, nil
		case left < len(inflateTail):
			return false, io.ErrUnexpectedEOF
		}
		if f.streams++; f.streams == maxStreams {
			return false, errSparse
		}
		// The sender has ended its stream inside the message (RFC 7692 section
		// 7.2.3.4). The next stream may refer to what came before.
		f.restart(f.history(dict))
	}
	return false, nil
}

// history returns the bytes that the next stream may refer to.
func (f *inflater) history(dict []byte) []byte {
	const most = 1 << maxWindowBits
	if len(f.out) >= most {
		return f.out[len(f.out)-most:]
	}
	keep := min(len(dict), most-len(f.out))
	h := make([]byte, 0, keep+len(f.out))
	return append(append(h, dict[len(dict)-keep:]...), f.out...)
}

const firstInflate = 1 << 10

// grow makes more room in out, up to one byte over the limit.
func (f *inflater) grow(limit int) {
	size := min(max(2*cap(f.out), firstInflate), limit+1)
	f.out = append(make([]byte, 0, size), f.out...)
}

// closePayload returns the payload of a close frame.
func closePayload(code int, reason string) []byte {
	if code == CloseNoStatus {
		return nil
	}
	return append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(reason)), uint16(code)), reason...)
}
