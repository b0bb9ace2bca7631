package load

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// WebSocket opcodes and bits (RFC 6455, section 5.2).
const (
	opBinary = 0x2
	opClose  = 0x8
	opPing   = 0x9
	opPong   = 0xA
	finBit   = 0x80
	maskBit  = 0x80
)

// socket is a WebSocket client that sends binary messages and expects each one back, unfragmented.
type socket struct {
	host    string
	payload []byte
	frames  []byte // one masked frame, repeated as often as may be in flight
	frame   int
	reader  *bufio.Reader
	answer  []byte
}

// newSocket builds the frames once. Each connection has its own random mask, which is the same in every frame and so
// costs no time while measuring.
func newSocket(o Options) *socket {
	s := &socket{host: o.Addr, payload: payload(o.Size), answer: make([]byte, max(o.Size, 0))}
	var mask [4]byte
	rand.Read(mask[:])
	frame := appendFrame(nil, opBinary, s.payload, mask)
	s.frame = len(frame)
	s.frames = bytes.Repeat(frame, max(o.InFlight, 1))
	return s
}

// appendFrame appends a masked, final frame (RFC 6455, sections 5.2 and 5.3).
func appendFrame(b []byte, op byte, data []byte, mask [4]byte) []byte {
	b = append(b, finBit|op)
	switch n := len(data); {
	case n < 126:
		b = append(b, maskBit|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, maskBit|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, maskBit|127), uint64(n))
	}
	b = append(b, mask[:]...)
	for i, c := range data {
		b = append(b, c^mask[i%4])
	}
	return b
}

// handshake upgrades the connection (RFC 6455, section 4.1).
func (s *socket) handshake(c net.Conn) error {
	var nonce [16]byte
	rand.Read(nonce[:])
	key := base64.StdEncoding.EncodeToString(nonce[:])
	_, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", s.host, key)
	if err != nil {
		return err
	}
	s.reader = bufio.NewReaderSize(c, 4096)
	res, err := http.ReadResponse(s.reader, nil) //nolint:bodyclose // a 101 has no body: what follows is the WebSocket
	if err != nil {
		return &fault{KindHandshake, fmt.Errorf("no WebSocket handshake: %w", closedByServer(err))}
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return &fault{KindHandshake, fmt.Errorf("no WebSocket handshake: the server answered %s", res.Status)}
	}
	const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	sum := sha1.Sum([]byte(key + guid))
	if got, want := res.Header.Get("Sec-WebSocket-Accept"), base64.StdEncoding.EncodeToString(sum[:]); !strings.EqualFold(got, want) {
		return &fault{KindHandshake, fmt.Errorf("no WebSocket handshake: Sec-WebSocket-Accept is %q, want %q", got, want)}
	}
	return nil
}

func (s *socket) requests(n int) []byte { return s.frames[:n*s.frame] }

// receive waits for one answer and takes in those that have arrived with it.
func (s *socket) receive(rw io.ReadWriter) (answers int, err error) {
	for answers == 0 || s.frameBuffered() {
		op, length, err := s.header()
		if err != nil {
			return answers, err
		}
		if op == opBinary {
			if err := s.message(length); err != nil {
				return answers, err
			}
			answers++
			continue
		}
		if err := s.control(rw, op, length); err != nil {
			return answers, err
		}
	}
	return answers, nil
}

// frameBuffered reports whether another small frame is complete in the buffer, so that reading it does not wait.
func (s *socket) frameBuffered() bool {
	head, err := s.reader.Peek(min(2, s.reader.Buffered()))
	return err == nil && len(head) == 2 && head[1] < 126 && s.reader.Buffered() >= 2+int(head[1])
}

// header reads the head of a frame. A server never masks, and this one has no reason to fragment.
func (s *socket) header() (op byte, length uint64, err error) {
	var b [8]byte
	if _, err := io.ReadFull(s.reader, b[:2]); err != nil {
		return 0, 0, closedByServer(err)
	}
	op, length = b[0]&0x0f, uint64(b[1])
	if b[0]&0xf0 != finBit || length >= maskBit {
		return 0, 0, wrong("frame header %#x %#x, want an unmasked final frame", b[0], b[1])
	}
	switch length {
	case 126:
		_, err = io.ReadFull(s.reader, b[:2])
		length = uint64(binary.BigEndian.Uint16(b[:2]))
	case 127:
		_, err = io.ReadFull(s.reader, b[:8])
		length = binary.BigEndian.Uint64(b[:8])
	}
	if err != nil {
		return 0, 0, closedByServer(err)
	}
	return op, length, nil
}

func (s *socket) message(length uint64) error {
	if length != uint64(len(s.payload)) {
		return wrong("a message of %d bytes, want %d", length, len(s.payload))
	}
	if _, err := io.ReadFull(s.reader, s.answer); err != nil {
		return closedByServer(err)
	}
	if !bytes.Equal(s.answer, s.payload) {
		return wrong("got %.40q, want %.40q", s.answer, s.payload)
	}
	return nil
}

// control answers pings and returns an error for every other frame (RFC 6455, section 5.5).
func (s *socket) control(w io.Writer, op byte, length uint64) error {
	const maxControl = 125
	if length > maxControl {
		return wrong("frame of opcode %d with %d bytes", op, length)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(s.reader, data); err != nil {
		return closedByServer(err)
	}
	switch op {
	case opPing:
		_, err := w.Write(appendFrame(nil, opPong, data, [4]byte{1, 2, 3, 4}))
		return err
	case opPong:
		return nil
	case opClose:
		if len(data) >= 2 {
			return &fault{KindClosed, fmt.Errorf("the server closed the WebSocket: %d %s", binary.BigEndian.Uint16(data), data[2:])}
		}
		return &fault{KindClosed, errors.New("the server closed the WebSocket")}
	}
	return wrong("frame of opcode %d", op)
}
