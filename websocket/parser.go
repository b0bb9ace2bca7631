package websocket

import (
	"encoding/binary"
	"fmt"
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

// event is what one step of the parser found. op is Text or Binary for a
// complete message, a control opcode for a control frame. data is valid, and
// may be changed, until the next call.
type event struct {
	op   Opcode
	data []byte
}

// parser reads client frames (RFC 6455 section 5) from a view that starts at the
// first byte not consumed yet. It decides on a frame from its header, before a
// byte of payload is kept. A message that lies complete in the view is unmasked
// in place and never copied; frames of more than directMax bytes that do not,
// and fragments, are collected in a buffer that grows with the bytes that have
// come, never with the length that was promised.
type parser struct {
	maxMessage int
	maxFrame   int

	message []byte // fragments and the part of a large frame so far
	text    utf8Check
	op      Opcode // of the unfinished message, opContinuation when there is none
	started bool   // a fragment of the message was complete: continuations follow

	// The rest of a data frame whose header was consumed.
	inFrame bool
	fin     bool
	key     uint32
	remain  int
}

// directMax is the largest payload the parser waits for in the view; what is
// larger is taken as it comes.
const directMax = 16 << 10

// maxControl is the largest payload of a control frame (RFC 6455 section 5.5).
const maxControl = 125

// header is a parsed frame header.
type header struct {
	fin  bool
	op   Opcode
	key  uint32
	size int // payload bytes
	n    int // header bytes
}

// next takes one step: it returns the bytes consumed and the event they
// completed, ok false when they completed none. Nothing consumed means that
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
	h.fin = view[0]&0x80 != 0
	h.op = Opcode(view[0] & 0x0f)
	if err := p.checkFirst(view[0], h); err != nil {
		return h, false, err
	}
	if len(view) < 2 {
		return h, false, nil
	}
	if view[1]&0x80 == 0 {
		return h, false, protocolError("frame is not masked")
	}
	size := uint64(view[1] & 0x7f)
	if h.op.control() && size > maxControl {
		return h, false, protocolError("control frame over 125 bytes")
	}
	h.n = 2
	switch size {
	case 126:
		if len(view) < 4 {
			return h, false, nil
		}
		h.n = 4
		if size = uint64(binary.BigEndian.Uint16(view[2:])); size < 126 {
			return h, false, protocolError("length is not in its shortest form")
		}
	case 127:
		if len(view) < 10 {
			return h, false, nil
		}
		h.n = 10
		size = binary.BigEndian.Uint64(view[2:])
		if size>>63 != 0 {
			return h, false, protocolError("length has its highest bit set")
		}
		if size < 1<<16 {
			return h, false, protocolError("length is not in its shortest form")
		}
	}
	if err := p.checkSize(h.op, size); err != nil {
		return h, false, err
	}
	if len(view) < h.n+4 {
		return h, false, nil
	}
	h.size = int(size)
	h.key = binary.LittleEndian.Uint32(view[h.n:])
	h.n += 4
	return h, true, nil
}

// checkFirst judges the first byte of a frame.
func (p *parser) checkFirst(b byte, h header) *violation {
	switch {
	case b&0x70 != 0:
		return protocolError("reserved bits are set")
	case h.op.control():
		if h.op > opPong {
			return protocolError("reserved opcode")
		}
		if !h.fin {
			return protocolError("control frame is fragmented")
		}
	case h.op > Binary:
		return protocolError("reserved opcode")
	case h.op == opContinuation && !p.started:
		return protocolError("continuation without a message")
	case h.op != opContinuation && p.started:
		return protocolError("new message inside a fragmented one")
	}
	return nil
}

// checkSize holds a data frame and its message against the limits.
func (p *parser) checkSize(op Opcode, size uint64) *violation {
	if op.control() {
		return nil
	}
	if size > uint64(p.maxFrame) {
		return &violation{CloseMessageTooBig, fmt.Sprintf("frame over the limit of %d bytes", p.maxFrame)}
	}
	if size > uint64(p.maxMessage-len(p.message)) {
		return &violation{CloseMessageTooBig, fmt.Sprintf("message over the limit of %d bytes", p.maxMessage)}
	}
	return nil
}

// control takes a control frame, which must be in the view completely.
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
	return event{h.op, data}, end, true, nil
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

// data takes a data frame: at once when it lies in the view, in pieces when it
// is large, and not yet when it is small and incomplete.
func (p *parser) data(view []byte, h header) (event, int, bool, *violation) {
	end := h.n + h.size
	if len(view) < end && h.size <= directMax {
		return event{}, 0, false, nil
	}
	if h.op != opContinuation {
		p.op = h.op
	}
	if len(view) < end {
		p.inFrame, p.fin, p.key, p.remain = true, h.fin, h.key, h.size
		return event{}, h.n, false, nil
	}
	data := view[h.n:end:end]
	unmask(data, h.key)
	if err := p.validate(data, h.fin); err != nil {
		return event{}, 0, false, err
	}
	if h.fin && !p.started {
		ev := event{p.op, data}
		p.op = opContinuation
		return ev, end, true, nil
	}
	p.message = append(p.message, data...)
	ev, ok := p.endFrame(h.fin)
	return ev, end, ok, nil
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
	if p.op != Text {
		return nil
	}
	if !p.text.feed(data) || last && !p.text.complete() {
		return &violation{CloseInvalidPayload, "text is not UTF-8"}
	}
	return nil
}

// endFrame ends a collected frame and, when it was the last of its message,
// the message. The buffer goes with it: an idle connection holds none.
func (p *parser) endFrame(fin bool) (event, bool) {
	if !fin {
		p.started = true
		return event{}, false
	}
	ev := event{p.op, p.message}
	p.message, p.op, p.started = nil, opContinuation, false
	return ev, true
}

// appendHeader appends the header of an unmasked, unfragmented frame.
func appendHeader(b []byte, op Opcode, size int) []byte {
	b = append(b, 0x80|byte(op))
	switch {
	case size < 126:
		return append(b, byte(size))
	case size < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(size))
	}
	return binary.BigEndian.AppendUint64(append(b, 127), uint64(size))
}

// maxHeader is the largest header of a server's frame.
const maxHeader = 10
