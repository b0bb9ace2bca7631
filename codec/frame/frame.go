// Package frame implements the frame protocol, version 1: requests and responses behind a fixed header of 16 bytes, with
// big-endian integers. docs/frame.md describes it.
//
//	offset  bytes  request               response
//	0       2      magic 0xEDD1          magic 0xEDD1
//	2       1      version 1             version 1
//	3       8      request id, not 0     the request's id; 0 = about the connection
//	11      1      operation             status
//	12      4      payload length        payload length
//	16      N      payload               payload
//
// [Server] serves the protocol. [Decoder], [ResponseDecoder] and [Encoder] are its parts, for pipelines of your own.
package frame

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

const (
	// Magic is the first field of every frame.
	Magic = 0xEDD1
	// Version is the field behind Magic.
	Version = 1
	// HeaderSize is the length of a header in bytes.
	HeaderSize = 16
	// DefaultMaxPayload is the longest payload in bytes that a decoder without the option MaxPayload accepts.
	DefaultMaxPayload = 1 << 20
)

// Offsets of the fields of a header.
const (
	atVersion = 2
	atID      = 3
	atCode    = 11
	atLength  = 12
)

// Op is a request's operation.
type Op uint8

// The operations. Those from 5 to 15 are reserved.
const (
	Ping     Op = 0  // the payload comes back, without the application
	Echo     Op = 1  // the payload comes back, from where the application runs
	Call     Op = 2  // a request of the application
	OneWay   Op = 3  // a request of the application that is never answered
	Cancel   Op = 4  // cancels the request with this id; not answered itself
	FirstApp Op = 16 // the first of the application's own operations
)

func (o Op) reserved() bool { return o > Cancel && o < FirstApp }

// String returns the operation's name in the protocol, or its number.
func (o Op) String() string {
	if o <= Cancel {
		return [...]string{"PING", "ECHO", "CALL", "ONEWAY", "CANCEL"}[o]
	}
	return fmt.Sprintf("OP %d", uint8(o))
}

// Frame is a request or a response. A frame from a decoder borrows the memory of its loop, so its payload is valid only
// during the call. Detach gives the frame a payload of its own; the pipeline does so when the frame leaves the loop. The
// last user of a frame releases it, once, and must not touch the frame or its payload afterwards.
type Frame struct {
	ID      uint64
	Code    uint8 // the Op of a request, the Status of a response
	Payload []byte
	Tag     any // for the user, from Options.Route to Options.Handle; Release clears it

	conn   *eddy.Conn
	owned  bool      // Payload lies in data, behind room for a header
	data   []byte    // memory of an owned Payload
	result []byte    // payload of the response
	made   []byte    // memory for a payload that Options.Append makes, behind room for a header
	reply  []byte    // memory for the response
	out    buf.Bytes // the response as it is written
	home   *sync.Pool
}

// Op returns the operation of a request.
func (f *Frame) Op() Op { return Op(f.Code) }

// Conn returns the connection that the frame came from, nil if no decoder made the frame.
func (f *Frame) Conn() *eddy.Conn { return f.conn }

// Status returns the status of a response.
func (f *Frame) Status() Status { return Status(f.Code) }

// Detach implements eddy.Detacher and returns the same frame, with a payload of its own.
func (f *Frame) Detach() any {
	if !f.owned {
		f.data = append(resized(f.data, HeaderSize, HeaderSize+len(f.Payload)), f.Payload...)
		f.Payload = f.data[HeaderSize:]
		f.owned = true
	}
	return f
}

// keptBuffer is the largest buffer that a released frame keeps. Larger ones may still be in use by a connection, which got
// them by reference.
const keptBuffer = 16<<10 + HeaderSize

// resized returns a slice of length n with a capacity of at least size, and uses the memory of b if that is large enough.
func resized(b []byte, n, size int) []byte {
	if cap(b) < size {
		b = make([]byte, n, size)
	}
	return b[:n]
}

func (f *Frame) reset() {
	f.ID, f.Code, f.Payload, f.Tag, f.conn, f.owned = 0, 0, nil, nil, nil, false
	if cap(f.data) > keptBuffer {
		f.data = nil
	}
	if cap(f.made) > keptBuffer {
		f.made = nil
	}
	if cap(f.reply) > keptBuffer {
		f.reply = nil
	}
	f.result = nil
	f.out.Reset(nil)
}

// Release implements eddy.Releaser.
func (f *Frame) Release() {
	if f.home != nil {
		f.reset()
		f.home.Put(f)
	}
}

// AppendHeader appends a header to dst. code is an Op or a Status.
func AppendHeader(dst []byte, id uint64, code uint8, length int) []byte {
	dst = append(dst, Magic>>8, Magic&0xff, Version)
	dst = binary.BigEndian.AppendUint64(dst, id)
	dst = append(dst, code)
	return binary.BigEndian.AppendUint32(dst, uint32(length))
}

// AppendRequest appends a whole request to dst.
func AppendRequest(dst []byte, id uint64, op Op, payload []byte) []byte {
	return append(AppendHeader(dst, id, uint8(op), len(payload)), payload...)
}

// AppendResponse appends a whole response with the status OK to dst. For other statuses use AppendError.
func AppendResponse(dst []byte, id uint64, payload []byte) []byte {
	return append(AppendHeader(dst, id, uint8(StatusOK), len(payload)), payload...)
}
