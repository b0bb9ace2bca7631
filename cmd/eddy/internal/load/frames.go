package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// frames is the frame protocol: ECHO requests whose answers may come in any order. A request's id is its place among
// those in flight, plus 1.
type frames struct {
	payload []byte
	free    []int // places to send from
	waits   []bool
	done    []int // places that the last receive answered
	out     []byte
	in      []byte // read and not taken yet
	room    []byte
}

const (
	frameHeader = 16
	frameEcho   = 1
)

func newFrames(o Options) *frames {
	f := &frames{payload: payload(o.Size), waits: make([]bool, max(o.Pipeline, 0))}
	for i := range f.waits {
		f.free = append(f.free, i)
	}
	f.room = make([]byte, min(maxRead, len(f.waits)*f.size())+f.size())
	return f
}

func (f *frames) size() int { return frameHeader + len(f.payload) }

func (f *frames) handshake(net.Conn) error { return nil }

func (f *frames) send(w io.Writer, n int) error {
	f.out = f.out[:0]
	for range n {
		place := f.free[0]
		f.free = f.free[1:]
		f.waits[place] = true
		f.out = append(f.out, 0xED, 0xD1, 1)
		f.out = binary.BigEndian.AppendUint64(f.out, uint64(place)+1)
		f.out = append(f.out, frameEcho)
		f.out = binary.BigEndian.AppendUint32(f.out, uint32(len(f.payload)))
		f.out = append(f.out, f.payload...)
	}
	_, err := w.Write(f.out)
	return err
}

func (f *frames) receive(r io.ReadWriter) (answers int, err error) {
	f.done = f.done[:0]
	for len(f.done) == 0 {
		n, err := r.Read(f.room[copy(f.room, f.in):])
		if err != nil {
			return 0, closedByServer(err)
		}
		f.in = f.room[:len(f.in)+n]
		for len(f.in) >= frameHeader {
			if err := f.check(); err != nil {
				return 0, err
			}
			if len(f.in) < f.size() {
				break
			}
			if err := f.take(); err != nil {
				return 0, err
			}
		}
	}
	f.free = append(f.free[:0], f.done...)
	return len(f.done), nil
}

// check looks at the header of the answer that is arriving.
func (f *frames) check() error {
	h := f.in[:frameHeader]
	switch length := binary.BigEndian.Uint32(h[12:]); {
	case !bytes.Equal(h[:3], []byte{0xED, 0xD1, 1}):
		return fmt.Errorf("wrong answer: header %X", h)
	case h[11] != 0:
		return fmt.Errorf("answer with status %d", h[11])
	case length != uint32(len(f.payload)):
		return fmt.Errorf("wrong answer: payload of %d bytes, want %d", length, len(f.payload))
	}
	return nil
}

// take ends the request that the next answer is to.
func (f *frames) take() error {
	id := binary.BigEndian.Uint64(f.in[3:])
	if id == 0 || id > uint64(len(f.waits)) || !f.waits[id-1] {
		return fmt.Errorf("wrong answer: to request %d, which is not in flight", id)
	}
	if !bytes.Equal(f.in[frameHeader:f.size()], f.payload) {
		return errors.New("wrong answer: another payload")
	}
	f.waits[id-1] = false
	f.done = append(f.done, int(id-1))
	f.in = f.in[f.size():]
	return nil
}

// answered implements unordered.
func (f *frames) answered() []int { return f.done }
