package dubbo

import (
	"encoding/binary"
	"fmt"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
)

// A packet is a message of the dubbo protocol, behind its header of 16 bytes, whose integers are big-endian:
//
//	offset  bytes
//	0       2      magic 0xDABB
//	2       1      0x80 request, 0x40 two-way, 0x20 event, 5 bits: the serialization
//	3       1      status of a response
//	4       8      request id
//	12      4      length of the body
type packet struct {
	flags  byte
	status byte
	id     uint64
	body   []byte // of the loop
}

const (
	magic      = 0xdabb
	headerSize = 16

	flagRequest = 0x80
	flagTwoWay  = 0x40
	flagEvent   = 0x20
	serialMask  = 0x1f
	serial      = 2 // of Hessian 2.0
)

// The statuses of a response.
const (
	statusOK            = 20
	statusClientTimeout = 30
	statusServerTimeout = 31
	statusInactive      = 35
	statusBadRequest    = 40
	statusNotFound      = 60
	statusServerError   = 80
	statusExhausted     = 100
)

// The kinds of an answer, which its body begins with. From attached on, attachments follow the value.
const (
	answerException = iota
	answerValue
	answerNull
	attached
)

// codeInt is the code of Hessian's int 0.
const codeInt = 0x90

// null is Hessian's null. It ends each answer, as dubbo-go's do, because there are clients in Java that read on.
const null = 'N'

// readOnly is the event that tells a client to send no more requests.
const readOnly = "R"

// statuses has the status that answers a request for each of the frame protocol. APP_ERROR is an exception.
var statuses = map[frame.Status]byte{
	frame.StatusBadRequest:       statusBadRequest,
	frame.StatusTooLarge:         statusBadRequest,
	frame.StatusNotFound:         statusNotFound,
	frame.StatusBusy:             statusExhausted,
	frame.StatusDeadlineExceeded: statusServerTimeout,
	frame.StatusUnavailable:      statusInactive,
}

// framed has the way back.
var framed = map[byte]frame.Status{
	statusBadRequest:    frame.StatusBadRequest,
	statusNotFound:      frame.StatusNotFound,
	statusExhausted:     frame.StatusBusy,
	statusServerTimeout: frame.StatusDeadlineExceeded,
	statusClientTimeout: frame.StatusDeadlineExceeded,
	statusInactive:      frame.StatusUnavailable,
}

// split returns the packet at the beginning of view and its length, 0 while it is not whole. A body over the limit is an
// error with the packet's header.
func split(view []byte, limit int) (p packet, n int, err error) {
	if err := checkMagic(view); err != nil {
		return p, 0, err
	}
	if len(view) < headerSize {
		return p, 0, nil
	}
	p = packet{flags: view[2], status: view[3], id: binary.BigEndian.Uint64(view[4:])}
	length := binary.BigEndian.Uint32(view[12:])
	if uint64(length) > uint64(limit) {
		return p, 0, eddy.WithReason(eddy.CloseFrameTooLarge, fmt.Errorf("dubbo: a body of %d bytes, limit %d", length, limit))
	}
	n = headerSize + int(length)
	if len(view) < n {
		return p, 0, nil
	}
	p.body = view[headerSize:n:n]
	return p, n, nil
}

// checkMagic returns an error if view does not begin as a packet does.
func checkMagic(view []byte) error {
	for i, want := range [...]byte{magic >> 8, magic & 0xff} {
		if len(view) > i && view[i] != want {
			return eddy.WithReason(eddy.CloseProtocolError, fmt.Errorf("dubbo: magic byte %#02x, want %#02x", view[i], want))
		}
	}
	return nil
}

// appendHeader appends a header. finish sets the length.
func appendHeader(dst []byte, flags, status byte, id uint64) []byte {
	dst = append(dst, magic>>8, magic&0xff, flags|serial, status)
	dst = binary.BigEndian.AppendUint64(dst, id)
	return append(dst, 0, 0, 0, 0)
}

// finish sets the length of the packet that begins at offset at and ends with dst.
func finish(dst []byte, at int) []byte {
	binary.BigEndian.PutUint32(dst[at+12:], uint32(len(dst)-at-headerSize))
	return dst
}

// appendEvent appends an event or the response to one.
func appendEvent(dst []byte, flags, status byte, id uint64, body string) []byte {
	at := len(dst)
	dst = append(appendHeader(dst, flagEvent|flags, status, id), body...)
	return finish(dst, at)
}

// appendText appends a string in Hessian 2.0.
func appendText(dst []byte, s string) []byte {
	b, err := encode(s)
	if err != nil { // no string fails
		return append(dst, 0)
	}
	return append(dst, b...)
}
