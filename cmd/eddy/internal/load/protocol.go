package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// A protocol makes the requests of one connection and recognises their answers.
type protocol interface {
	// handshake runs once, before any request.
	handshake(c net.Conn) error
	// send writes n requests.
	send(w io.Writer, n int) error
	// receive reads what is there and returns how many answers it completed, at least one.
	receive(r io.ReadWriter) (answers int, err error)
}

// unordered is a protocol whose answers come in any order. Requests are known by their place among those in flight; a new one takes the place
// of one that was answered, in the order of answered.
type unordered interface {
	answered() []int // by the last receive
}

// refuser is a protocol that tells which of the requests that answered names were refused for want of room.
type refuser interface {
	refused() []bool // by the last receive
}

// newProtocol returns the protocol of one connection, nil if the name is unknown.
func newProtocol(o Options) protocol {
	switch o.Protocol {
	case "echo":
		request := payload(o.Size)
		return newStream(request, request, o.Pipeline)
	case "line":
		text := payload(o.Size)
		request := append(bytes.Clone(text), '\n')
		answer := append(append(strconv.AppendInt(nil, int64(o.Size), 10), ": "...), request...)
		return newStream(request, answer, o.Pipeline)
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

// stream is a protocol in which every request is the same bytes and every answer too: echo and line.
type stream struct {
	requests []byte // one request, repeated as often as the pipeline is deep
	request  int    // its length
	answers  []byte // one answer, repeated
	answer   int
	phase    int // bytes received of the answer that is arriving
	buf      []byte
}

// maxRead bounds the read buffer of a connection.
const maxRead = 64 << 10

func newStream(request, answer []byte, pipeline int) *stream {
	read := min(maxRead, len(answer)*max(pipeline, 1))
	return &stream{
		requests: bytes.Repeat(request, max(pipeline, 1)), request: len(request),
		answers: bytes.Repeat(answer, read/max(len(answer), 1)+2), answer: len(answer),
		buf: make([]byte, read),
	}
}

func (s *stream) handshake(net.Conn) error { return nil }

func (s *stream) send(w io.Writer, n int) error {
	_, err := w.Write(s.requests[:n*s.request])
	return err
}

func (s *stream) receive(r io.ReadWriter) (answers int, err error) {
	for answers == 0 {
		n, err := r.Read(s.buf)
		if err != nil {
			return 0, closedByServer(err)
		}
		if want := s.answers[s.phase : s.phase+n]; !bytes.Equal(s.buf[:n], want) {
			return 0, fmt.Errorf("wrong answer: got %.40q, want %.40q", s.buf[:n], want)
		}
		answers = (s.phase + n) / s.answer
		s.phase = (s.phase + n) % s.answer
	}
	return answers, nil
}

// closedByServer turns the end of the stream into an error that says what happened.
func closedByServer(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the server closed the connection")
	}
	return err
}
