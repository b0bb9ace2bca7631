package websocket

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/go-eddy/eddy"
)

// CompressionOptions configure permessage-deflate (RFC 7692). A zero field takes
// the default named beside it.
type CompressionOptions struct {
	// Threshold is the smallest message in bytes that is compressed. Default 256.
	Threshold int
	// Level is that of package flate, 1 (fastest) to 9. It does not apply where
	// WindowBits or the peer demand a window smaller than 32 KiB. Default 1.
	Level int
	// ContextTakeover lets messages refer to earlier ones of their connection,
	// in both directions, where the peer agrees and Memory allows it. It makes
	// small messages shorter. It costs each connection two windows, and each
	// message the work of loading the window. Default: each message stands for
	// itself, and connections keep nothing.
	ContextTakeover bool
	// WindowBits is the size of the window that outbound messages refer to, as
	// a power of two, 8 to 15. The peer may demand a smaller one. Default 15;
	// with ContextTakeover 12.
	WindowBits int
	// PeerWindowBits is the largest window that the peer is asked to use, 8 to
	// 15, if it can limit its window. Default 15.
	PeerWindowBits int
	// Memory bounds the windows of all connections together, in bytes. A connection
	// that finds no room does without context takeover. Default 64 MiB.
	Memory int64
	// Compressors bounds how many messages are compressed at the same time,
	// each with about 1 MiB of working memory. Further messages are sent
	// uncompressed. Default 2 for each processor.
	Compressors int
	// Inflaters bounds how many messages are inflated beyond 256 KiB at the
	// same time, each with up to Options.MaxMessage bytes of memory. A further
	// message waits in its compressed form, and its connection is not read
	// meanwhile. Default 16.
	Inflaters int
}

const (
	defaultThreshold       = 256
	defaultTakeoverBits    = 12
	maxWindowBits          = 15
	minWindowBits          = 8
	defaultCompressMemory  = 64 << 20
	compressorsPerCPU      = 2
	inflatersKept          = 16
	defaultInflaters       = 16
	defaultLevel           = 1
	highestLevel           = 9
	maxLoopCompress        = 128 << 10 // bytes of a message that a loop compresses
	inflateStep            = 256 << 10 // bytes that a loop inflates at a time
	maxKeptInflated        = 64 << 10  // capacity that an inflater keeps for messages
	keptCompressedCapacity = 64 << 10
)

// Compression makes connections compress: set it in Options.Compression. It
// holds the compressors and decompressors, which no connection owns. It bounds
// the memory of all endpoints that share it. Any goroutine may use it.
type Compression struct {
	o         CompressionOptions
	deflaters [maxWindowBits + 1]shelf[deflater] // by window bits
	inflaters shelf[inflater]
	busy      atomic.Int64 // deflaters in use
	windows   atomic.Int64 // bytes reserved for windows
	large     turns

	in, out       flow
	skipped       atomic.Uint64
	withoutWindow atomic.Uint64
}

// flow counts one direction.
type flow struct{ messages, plain, packed atomic.Uint64 }

func (f *flow) add(plain, packed int) {
	f.messages.Add(1)
	f.plain.Add(uint64(plain))
	f.packed.Add(uint64(packed))
}

// CompressionStats are the numbers of a Compression.
type CompressionStats struct {
	Sent, SentBytes, SentWire             uint64 // compressed messages, their bytes before and after
	Received, ReceivedBytes, ReceivedWire uint64
	Skipped                               uint64 // messages sent as they are because all compressors were busy
	WithoutWindow                         uint64 // connections that got no context takeover because of Memory
	Windows                               int64  // bytes reserved for windows now
	Waiting                               int    // messages that wait because of Inflaters, also those of ended connections
}

// NewCompression returns a Compression. The error names the field that makes no
// sense.
func NewCompression(o CompressionOptions) (*Compression, error) {
	for _, f := range []struct {
		name             string
		value            *int
		least, most, def int
	}{
		{"Threshold", &o.Threshold, 1, largestMessage, defaultThreshold},
		{"Level", &o.Level, 1, highestLevel, defaultLevel},
		{"WindowBits", &o.WindowBits, minWindowBits, maxWindowBits, o.defaultBits()},
		{"PeerWindowBits", &o.PeerWindowBits, minWindowBits, maxWindowBits, maxWindowBits},
		{"Compressors", &o.Compressors, 1, 1 << 20, compressorsPerCPU * runtime.GOMAXPROCS(0)},
		{"Inflaters", &o.Inflaters, 1, 1 << 20, defaultInflaters},
	} {
		switch v := *f.value; {
		case v == 0:
			*f.value = f.def
		case v < f.least || v > f.most:
			return nil, fmt.Errorf("websocket: CompressionOptions.%s is %d, want %d to %d, or 0 for the default %d", f.name, v, f.least, f.most, f.def)
		}
	}
	if o.Memory < 0 {
		return nil, fmt.Errorf("websocket: CompressionOptions.Memory is %d, want 0 (default %d) or more", o.Memory, defaultCompressMemory)
	}
	if o.Memory == 0 {
		o.Memory = defaultCompressMemory
	}
	z := &Compression{o: o}
	z.inflaters.most = inflatersKept
	z.large.free = o.Inflaters
	for i := range z.deflaters {
		z.deflaters[i].most = o.Compressors
	}
	return z, nil
}

func (o *CompressionOptions) defaultBits() int {
	if o.ContextTakeover {
		return defaultTakeoverBits
	}
	return maxWindowBits
}

// Stats returns the numbers so far. Any goroutine.
func (z *Compression) Stats() CompressionStats {
	return CompressionStats{
		Sent: z.out.messages.Load(), SentBytes: z.out.plain.Load(), SentWire: z.out.packed.Load(),
		Received: z.in.messages.Load(), ReceivedBytes: z.in.plain.Load(), ReceivedWire: z.in.packed.Load(),
		Skipped: z.skipped.Load(), WithoutWindow: z.withoutWindow.Load(), Windows: z.windows.Load(), Waiting: z.large.waiting(),
	}
}

// reserve takes memory for windows and reports whether there was enough.
func (z *Compression) reserve(n int) bool {
	if z.windows.Add(int64(n)) <= z.o.Memory {
		return true
	}
	z.windows.Add(-int64(n))
	z.withoutWindow.Add(1)
	return false
}

func (z *Compression) giveBack(n int) { z.windows.Add(-int64(n)) }

// deflation is the outcome of the handshake for compression.
type deflation struct {
	outBits, inBits         int
	outTakeover, inTakeover bool
}

// window returns the bytes of both windows.
func (d deflation) window() int {
	n := 0
	if d.outTakeover {
		n += 1 << d.outBits
	}
	if d.inTakeover {
		n += 1 << d.inBits
	}
	return n
}

// deflateState is the state of compression of one connection.
type deflateState struct {
	*Compression
	deflation
	sent     window // guarded by Conn.mu
	received window // loop only
	work     *inflater
	op       Opcode // of the message in work
	packed   int    // its size on the wire
	parked   []byte // a compressed message that waits for its turn
	admitted bool   // the message holds a place of turns
	turn     eddy.Signal
}

// window holds the last bytes of the messages of one direction, at most size.
type window struct {
	b    []byte
	size int
}

// slide adds the bytes of a message.
func (w *window) slide(p []byte) {
	if len(p) >= w.size {
		w.b = append(w.b[:0], p[len(p)-w.size:]...)
		return
	}
	if over := len(w.b) + len(p) - w.size; over > 0 {
		w.b = w.b[:copy(w.b, w.b[over:])]
	}
	w.b = append(w.b, p...)
	if cap(w.b) > w.size { // append rounds up
		w.b = w.b[:len(w.b):w.size]
	}
}

func newDeflateState(z *Compression, d deflation) *deflateState {
	return &deflateState{
		Compression: z, deflation: d,
		sent: window{size: 1 << d.outBits}, received: window{size: 1 << d.inBits},
	}
}
