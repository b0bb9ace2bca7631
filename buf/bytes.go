package buf

// Bytes is a message of raw bytes. A borrowed one lies in the memory of a loop and is valid only during the call it was
// passed to; Detach makes a copy to keep. The zero value is an empty borrowed message.
type Bytes struct {
	p     []byte
	owned bool
}

// Own returns a message that owns p, which the caller gives up. The message may be kept, and read by any goroutine.
func Own(p []byte) *Bytes { return &Bytes{p: p, owned: true} }

// Copy returns a message that owns a copy of p. Up to 1 KiB it takes one allocation, with the bytes behind the message.
func Copy(p []byte) *Bytes {
	var b *Bytes
	var room []byte
	switch n := len(p); {
	case n <= 64:
		m := new(struct {
			Bytes
			room [64]byte
		})
		b, room = &m.Bytes, m.room[:n:n]
	case n <= 256:
		m := new(struct {
			Bytes
			room [256]byte
		})
		b, room = &m.Bytes, m.room[:n:n]
	case n <= 1024:
		m := new(struct {
			Bytes
			room [1024]byte
		})
		b, room = &m.Bytes, m.room[:n:n]
	default:
		b, room = new(Bytes), make([]byte, n)
	}
	copy(room, p)
	b.p, b.owned = room, true
	return b
}

// Reset makes b borrow p, so that a loop can use one Bytes for every read. Do not call it on a Bytes that was given away
// as an owned one.
func (b *Bytes) Reset(p []byte) {
	b.p = p
	b.owned = false
}

// Bytes returns the bytes, which must not be changed.
func (b *Bytes) Bytes() []byte { return b.p }

// Len returns the number of bytes.
func (b *Bytes) Len() int { return len(b.p) }

// Detach returns a *Bytes that owns its memory: b itself if it does, else a copy.
func (b *Bytes) Detach() any {
	if b.owned {
		return b
	}
	return Copy(b.p)
}
