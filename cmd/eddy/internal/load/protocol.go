package load

import (
	"bytes"
	"io"
	"net"
	"strconv"
)

// A protocol makes the requests of one connection and recognises their answers. One goroutine may ask for requests while another
// receives.
type protocol interface {
	// handshake runs once, before any request.
	handshake(c net.Conn) error
	// requests returns the bytes of n more requests, valid until it is called again. The caller keeps the number in flight below the limit.
	requests(n int) []byte
	// receive reads what is there and returns how many answers it completed, at least one.
	receive(r io.ReadWriter) (answers int, err error)
}

// unordered is a protocol whose answers come in any order. A request is identified by its place among those in flight.
type unordered interface {
	asked() []int    // the places that the last requests took
	answered() []int // the places to which the last receive brought answers, free from then on; once for each receive
}

// refuser is a protocol that tells which of the answers were refusals for want of room.
type refuser interface {
	refused() []bool // by the last receive
}

// newProtocol returns the protocol of one connection, nil if the name is unknown.
func newProtocol(o Options) protocol {
	switch o.Protocol {
	case "echo":
		request := payload(o.Size)
		return newStream(request, request, o.InFlight)
	case "line":
		text := payload(o.Size)
		request := append(bytes.Clone(text), '\n')
		answer := append(append(strconv.AppendInt(nil, int64(o.Size), 10), ": "...), request...)
		return newStream(request, answer, o.InFlight)
	case "http":
		return newWeb(o)
	case "frame", "rpc":
		return newFrames(o)
	case "ws":
		return newSocket(o)
	}
	return nil
}

// payload returns size letters; as text it is valid in every protocol.
func payload(size int) []byte {
	b := make([]byte, max(size, 0))
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	return b
}

// stream is a protocol in which all requests are the same bytes, and all answers too: echo and line.
type stream struct {
	all     []byte // one request, repeated as often as may be in flight
	request int    // its length
	answers []byte // one answer, repeated
	answer  int
	phase   int // bytes received of the answer that is arriving
	buf     []byte
}

// maxRead bounds the read buffer of a connection.
const maxRead = 64 << 10

func newStream(request, answer []byte, inFlight int) *stream {
	read := min(maxRead, len(answer)*max(inFlight, 1))
	return &stream{
		all: bytes.Repeat(request, max(inFlight, 1)), request: len(request),
		answers: bytes.Repeat(answer, read/max(len(answer), 1)+2), answer: len(answer),
		buf: make([]byte, read),
	}
}

func (s *stream) handshake(net.Conn) error { return nil }

func (s *stream) requests(n int) []byte { return s.all[:n*s.request] }

func (s *stream) receive(r io.ReadWriter) (answers int, err error) {
	for answers == 0 {
		n, err := r.Read(s.buf)
		if err != nil {
			return 0, closedByServer(err)
		}
		if want := s.answers[s.phase : s.phase+n]; !bytes.Equal(s.buf[:n], want) {
			return 0, wrong("got %.40q, want %.40q", s.buf[:n], want)
		}
		answers = (s.phase + n) / s.answer
		s.phase = (s.phase + n) % s.answer
	}
	return answers, nil
}
