package websocket

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// violation is input that ends the connection: the close code and the reason
// that the close frame carries.
type violation struct {
	code   int
	reason string
}

// Error implements error.
func (v *violation) Error() string {
	return fmt.Sprintf("websocket: %s (%d)", v.reason, v.code)
}

func protocolError(reason string) *violation {
	return &violation{CloseProtocolError, reason}
}

// event is the result of one step of the parser. op is Text or Binary for a
// complete message, a control opcode for a control frame. data is valid, and
// may be changed, until the next call. deflated marks a message that has to be
// inflated and whose text was not validated.
type event struct {
	op       Opcode
	deflated bool
	data     []byte
}

// limits are the bounds that a parser checks its input against.
type limits struct {
	message   int  // bytes of a message
	frame     int  // bytes of payload of a data frame
	fragments int  // data frames of a message
	unmasked  bool // the peer is a server
}

// parser reads frames (RFC 6455 section 5) from a view that starts at the first
// byte not consumed yet. It judges a frame by its header, before it keeps a
// byte of payload. A message that is complete in the view is unmasked in place
// and never copied. Fragments, and incomplete frames of more than directMax
// bytes, are collected in a buffer. The buffer grows with the bytes that have
// come, never with the announced length.
type parser struct {
	lim     *limits
	deflate bool // permessage-deflate was negotiated

	message   []byte // fragments and the part of a large frame so far
	text      utf8Check
	op        Opcode // of the unfinished message
	deflated  bool   // that message is compressed
	started   bool   // it has a complete fragment: continuations follow
	fragments int    // complete fragments of that message
	checked   int    // payload bytes of the frame in the view whose text was validated

	// The rest of a data frame whose header was consumed.
	inFrame bool
	fin     bool
	key     uint32
	remain  int
}

// directMax is the largest payload that the parser waits for in the view. It
// collects a larger one as it comes.
const directMax = 16 << 10

// maxControl is the largest payload of a control frame (RFC 6455 section 5.5).
const maxControl = 125

// header is a decoded frame header.
type header struct {
	fin  bool
	rsv1 bool
	op   Opcode
	key  uint32 // 0 when the frame is not masked
	size int    // payload bytes
	n    int    // header bytes
}

// next takes one step. It returns the bytes consumed and the event they
// completed; ok is false when they completed none. Nothing consumed means that
// more bytes are needed.
func (p *parser) next(view []byte) (ev event, consumed int, ok bool, err *violation) {
	if p.inFrame {
		return p.collect(view)
	}
	h, complete, err := p.header(view)
	if err != nil || !complete {
		return event{}, 0, false, err
	}
	if h.op.control() {
		return p.control(view, h)
	}
	return p.data(view, h)
}

// header parses and checks a frame header; complete is false when more bytes
// are needed. The checks are in the order of the bytes, so that the verdict does
// not depend on how they were split.
func (p *parser) header(view []byte) (h header, complete bool, err *violation) {
	if len(view) < 1 {
		return h, false, nil
	}
	h.fin = view[0]&finBit != 0
	h.rsv1 = view[0]&rsv1Bit != 0
	h.op = Opcode(view[0] & 0x0f)
	if err := p.checkFirst(view[0], h); err != nil {
		return h, false, err
	}
	if len(view) < 2 {
		return h, false, nil
	}
	if masked := view[1]&maskBit != 0; masked == p.lim.unmasked {
		return h, false, p.wrongMask()
	}
	size := uint64(view[1] & 0x7f)
	if h.op.control() && size > maxControl {
		return h, false, protocolError("control frame over 125 bytes")
	}
	h.n = 2
	if size >= 126 {
		if size, h.n, err = longSize(view); err != nil || h.n == 0 {
			return h, false, err
		}
	}
	if err := p.checkSize(h, size); err != nil {
		return h, false, err
	}
	h.size = int(size)
	if p.lim.unmasked {
		return h, true, nil
	}
	if len(view) < h.n+4 {
		return h, false, nil
	}
	h.key = binary.LittleEndian.Uint32(view[h.n:])
	h.n += 4
	return h, true, nil
}

func (p *parser) wrongMask() *violation {
	if p.lim.unmasked {
		return protocolError("frame of a server is masked")
	}
	return protocolError("frame is not masked")
}

// longSize reads a length of 16 or 64 bits. n is the size of the header up to
// its end, 0 when more bytes are needed.
func longSize(view []byte) (size uint64, n int, err *violation) {
	if view[1]&0x7f == 126 {
		if len(view) < 4 {
			return 0, 0, nil
		}
		size, n = uint64(binary.BigEndian.Uint16(view[2:])), 4
		if size < 126 {
			return 0, 0, protocolError("length is not in its shortest form")
		}
		return size, n, nil
	}
	if len(view) < 10 {
		return 0, 0, nil
	}
	size, n = binary.BigEndian.Uint64(view[2:]), 10
	switch {
	case size>>63 != 0:
		return 0, 0, protocolError("length has its highest bit set")
	case size < 1<<16:
		return 0, 0, protocolError("length is not in its shortest form")
	}
	return size, n, nil
}

// checkFirst judges the first byte of a frame.
func (p *parser) checkFirst(b byte, h header) *violation {
	switch {
	case b&(rsv2Bit|rsv3Bit) != 0:
		return protocolError("reserved bits are set")
	case h.rsv1 && !p.deflate:
		return protocolError("reserved bit 1 is set and no extension uses it")
	case h.op.control():
		switch {
		case h.op > opPong:
			return protocolError("reserved opcode")
		case !h.fin:
			return protocolError("control frame is fragmented")
		case h.rsv1: // RFC 7692 section 6.1
			return protocolError("control frame is compressed")
		}
	case h.op > Binary:
		return protocolError("reserved opcode")
	case h.op == opContinuation && !p.started:
		return protocolError("continuation without a message")
	case h.op != opContinuation && p.started:
		return protocolError("new message inside a fragmented one")
	case h.op == opContinuation && h.rsv1: // RFC 7692 section 6.1
		return protocolError("reserved bit 1 is set on a continuation")
	}
	return nil
}

// checkSize checks a data frame and its message against the limits.
func (p *parser) checkSize(h header, size uint64) *violation {
	if h.op.control() {
		return nil
	}
	slack := 0
	if h.rsv1 || p.started && p.deflated {
		slack = deflateSlack(p.lim.message)
	}
	switch {
	case size > uint64(p.lim.frame+slack):
		return &violation{CloseMessageTooBig, fmt.Sprintf("frame over the limit of %d bytes", p.lim.frame)}
	case size > uint64(p.lim.message+slack-len(p.message)):
		return &violation{CloseMessageTooBig, fmt.Sprintf("message over the limit of %d bytes", p.lim.message)}
	case p.fragments >= p.lim.fragments:
		return &violation{CloseMessageTooBig, fmt.Sprintf("message over the limit of %d frames", p.lim.fragments)}
	}
	return nil
}

// deflateSlack returns how much longer than a message of n bytes its compressed
// form may be. It allows for stored blocks, as small as a few hundred bytes,
// with their headers.
func deflateSlack(n int) int { return n>>6 + 64 }

// control takes a control frame, which must be complete in the view.
func (p *parser) control(view []byte, h header) (event, int, bool, *violation) {
	end := h.n + h.size
	if len(view) < end {
		return event{}, 0, false, nil
	}
	data := view[h.n:end:end]
	unmask(data, h.key)
	if h.op == opClose {
		if err := checkClose(data); err != nil {
			return event{}, 0, false, err
		}
	}
	return event{op: h.op, data: data}, end, true, nil
}

// checkClose judges the payload of a close frame (RFC 6455 section 5.5.1).
func checkClose(data []byte) *violation {
	switch {
	case len(data) == 0:
		return nil
	case len(data) == 1:
		return protocolError("close frame of one byte")
	case !sendable(int(binary.BigEndian.Uint16(data))):
		return protocolError("invalid close code")
	case !utf8.Valid(data[2:]):
		return &violation{CloseInvalidPayload, "close reason is not UTF-8"}
	}
	return nil
}

// data takes a data frame: at once when it is complete in the view, in pieces
// when it is large. A small incomplete frame has to wait.
func (p *parser) data(view []byte, h header) (event, int, bool, *violation) {
	if h.op != opContinuation {
		p.op, p.deflated = h.op, h.rsv1
	}
	end := h.n + h.size
	if len(view) < end {
		if h.size <= directMax {
			return event{}, 0, false, p.peek(view[h.n:], h.key)
		}
		p.inFrame, p.fin, p.key, p.remain = true, h.fin, h.key, h.size
		return event{}, h.n, false, nil
	}
	data := view[h.n:end:end]
	unmask(data, h.key)
	if err := p.validate(data[p.checked:], h.fin); err != nil {
		return event{}, 0, false, err
	}
	p.checked = 0
	if h.fin && !p.started {
		return event{p.op, p.deflated, data}, end, true, nil
	}
	p.message = append(p.message, data...)
	ev, ok := p.endFrame(h.fin)
	return ev, end, ok, nil
}

// peek validates the text so far of a frame that the parser waits for, so that
// invalid text is refused early. It does not change the view.
func (p *parser) peek(payload []byte, key uint32) *violation {
	if p.op != Text || p.deflated {
		return nil
	}
	var piece [256]byte
	key = bits.RotateLeft32(key, -8*(p.checked&3))
	for p.checked < len(payload) {
		n := copy(piece[:], payload[p.checked:])
		key = unmask(piece[:n], key)
		if err := p.validate(piece[:n], false); err != nil {
			return err
		}
		p.checked += n
	}
	return nil
}

// collect takes the part of a large frame that is in the view.
func (p *parser) collect(view []byte) (event, int, bool, *violation) {
	n := min(len(view), p.remain)
	if n == 0 {
		return event{}, 0, false, nil
	}
	part := view[:n]
	p.key = unmask(part, p.key)
	p.remain -= n
	last := p.remain == 0
	if err := p.validate(part, last && p.fin); err != nil {
		return event{}, 0, false, err
	}
	p.message = append(p.message, part...)
	if !last {
		return event{}, n, false, nil
	}
	p.inFrame = false
	ev, ok := p.endFrame(p.fin)
	return ev, n, ok, nil
}

// validate checks the next bytes of a text message; last says that the message
// ends with them.
func (p *parser) validate(data []byte, last bool) *violation {
	if p.op != Text || p.deflated {
		return nil
	}
	if !p.text.feed(data) || last && !p.text.complete() {
		return errNotUTF8
	}
	return nil
}

var errNotUTF8 = &violation{CloseInvalidPayload, "text is not UTF-8"}

// endFrame ends a collected frame and, when it was the last one, its message.
// The event takes the buffer with it, so an idle connection holds none.
func (p *parser) endFrame(fin bool) (event, bool) {
	if !fin {
		p.started = true
		p.fragments++
		return event{}, false
	}
	ev := event{p.op, p.deflated, p.message}
	p.message, p.started, p.fragments = nil, false, 0
	return ev, true
}

// unfinished reports whether a message has begun and is not complete. The bytes
// of a frame that the parser waits for in the view do not count.
func (p *parser) unfinished() bool { return p.inFrame || p.started }
