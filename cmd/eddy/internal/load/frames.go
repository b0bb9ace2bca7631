package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// frames is the frame protocol, whose answers may come in any order. A request's id is its place among those in flight,
// plus 1. For "frame" the requests are ECHOs. For "rpc" they are CALLs of a method that returns its raw body.
type frames struct {
	op      byte
	payload []byte // of a request
	answer  []byte // what is expected back
	refuses bool   // BUSY and UNAVAILABLE are counted and do not end the connection

	mu    sync.Mutex // free and waits: one goroutine asks, another receives
	free  []int      // places to send from
	waits []bool

	taken []int // places of the last requests
	done  []int // places that the last receive answered
	busy  []bool
	out   []byte
	in    []byte // read and not taken yet
	room  []byte
}

const (
	frameHeader = 16
	frameEcho   = 1
	frameCall   = 2

	statusBusy        = 5
	statusUnavailable = 8

	// longestRefusal is the largest payload of a status that is taken.
	longestRefusal = 4 << 10
)

func newFrames(o Options) *frames {
	body := payload(o.Size)
	f := &frames{op: frameEcho, payload: body, answer: body, waits: make([]bool, max(o.InFlight, 0))}
	if o.Protocol == "rpc" {
		f.op, f.refuses = frameCall, true
		f.payload = append(callPrefix(o.Service, o.Method), body...)
	}
	f.busy = make([]bool, len(f.waits))
	for i := range f.waits {
		f.free = append(f.free, i)
	}
	size := frameHeader + max(len(f.answer), longestRefusal)
	f.room = make([]byte, min(maxRead, len(f.waits)*size)+size)
	return f
}

// callPrefix returns what precedes the body of a CALL: no timeout, a raw body, no flags, service, method, no metadata.
func callPrefix(service, method string) []byte {
	b := make([]byte, 6)
	for _, s := range []string{service, method} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	return append(b, 0, 0)
}

func (f *frames) handshake(net.Conn) error { return nil }

func (f *frames) requests(n int) []byte {
	f.mu.Lock()
	f.taken = append(f.taken[:0], f.free[len(f.free)-n:]...)
	f.free = f.free[:len(f.free)-n]
	for _, place := range f.taken {
		f.waits[place] = true
	}
	f.mu.Unlock()
	f.out = f.out[:0]
	for _, place := range f.taken {
		f.out = f.appendRequest(f.out, place)
	}
	return f.out
}

func (f *frames) appendRequest(b []byte, place int) []byte {
	b = append(b, 0xED, 0xD1, 1)
	b = binary.BigEndian.AppendUint64(b, uint64(place)+1)
	b = append(b, f.op)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.payload)))
	return append(b, f.payload...)
}

func (f *frames) receive(r io.ReadWriter) (answers int, err error) {
	f.done, f.busy = f.done[:0], f.busy[:0]
	for len(f.done) == 0 {
		n, err := r.Read(f.room[copy(f.room, f.in):])
		if err != nil {
			return 0, closedByServer(err)
		}
		f.in = f.room[:len(f.in)+n]
		for len(f.in) >= frameHeader {
			size, err := f.check()
			if err != nil {
				return 0, err
			}
			if len(f.in) < size {
				break
			}
			if err := f.take(size); err != nil {
				return 0, err
			}
		}
	}
	return len(f.done), nil
}

// check looks at the header of the answer that is arriving, and returns the length of the whole answer.
func (f *frames) check() (size int, err error) {
	h := f.in[:frameHeader]
	length := binary.BigEndian.Uint32(h[12:])
	switch status := h[11]; {
	case !bytes.Equal(h[:3], []byte{0xED, 0xD1, 1}):
		return 0, wrong("header %X", h)
	case status != 0 && (!f.refuses || length < 6 || length > longestRefusal):
		return 0, &fault{KindStatus, fmt.Errorf("answer with status %d", status)}
	case status == 0 && length != uint32(len(f.answer)):
		return 0, wrong("payload of %d bytes, want %d", length, len(f.answer))
	}
	return frameHeader + int(length), nil
}

// take ends the request that the next answer belongs to.
func (f *frames) take(size int) error {
	id, status, body := binary.BigEndian.Uint64(f.in[3:]), f.in[11], f.in[frameHeader:size]
	busy := status == statusBusy || status == statusUnavailable
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case status != 0 && !busy:
		return &fault{KindStatus, fmt.Errorf("answer with status %d: %s", status, strings.ToValidUTF8(string(body[6:]), "?"))}
	case id == 0 || id > uint64(len(f.waits)) || !f.waits[id-1]:
		return wrong("to request %d, which is not in flight", id)
	case !busy && !bytes.Equal(body, f.answer):
		return wrong("another payload")
	}
	f.waits[id-1] = false
	f.done, f.busy = append(f.done, int(id-1)), append(f.busy, busy)
	f.in = f.in[size:]
	return nil
}

// asked implements unordered.
func (f *frames) asked() []int { return f.taken }

// answered implements unordered. Not before it are the places free: until then they hold the times of the requests answered.
func (f *frames) answered() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = append(f.free, f.done...)
	return f.done
}

// refused implements refuser.
func (f *frames) refused() []bool { return f.busy }
