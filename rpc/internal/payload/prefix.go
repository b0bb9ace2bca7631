// Package payload is what RPC frames carry: the prefix of a request, and bodies in their encodings.
package payload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

// MaxPrefix is the longest prefix of a request, in bytes. The documentation of package rpc has its fields.
const MaxPrefix = 16 << 10

// PrefixFixed is the length in bytes of a prefix with empty fields: timeout, codec, flags, and three numbers of 16 bits.
const PrefixFixed = 4 + 1 + 1 + 2 + 2 + 2

// Offsets of the first fields of a prefix.
const (
	atCodec = 4
	atFlags = 5
	atKey   = 6
)

// Prefix is what precedes the body of a request. Its slices borrow from the payload.
type Prefix struct {
	Timeout     uint32 // ms that were left when the request was sent, 0 = no limit
	Codec       Codec
	Key, Method []byte
	Meta        Pairs
	Body        []byte
}

// Why a prefix does not parse.
var (
	errPrefixShort = errors.New("rpc: the prefix is cut short")
	errPrefixFlags = errors.New("rpc: the flags of the prefix are not 0")
	errPrefixCodec = errors.New("rpc: the codec of the prefix is unknown")
	errPrefixLong  = fmt.Errorf("rpc: the prefix is longer than %d bytes", MaxPrefix)
)

// ParsePrefix reads the prefix of a payload, without allocations.
func ParsePrefix(payload []byte) (p Prefix, err error) {
	// A field that reaches beyond the limit is too long, whether or not the payload holds it.
	b := payload[:min(len(payload), MaxPrefix)]
	short := errPrefixShort
	if len(payload) > MaxPrefix {
		short = errPrefixLong
	}
	if len(b) < PrefixFixed {
		return Prefix{}, errPrefixShort
	}
	p.Timeout = binary.BigEndian.Uint32(b)
	p.Codec = Codec(b[atCodec])
	if p.Codec >= Codecs {
		return Prefix{}, errPrefixCodec
	}
	if b[atFlags] != 0 {
		return Prefix{}, errPrefixFlags
	}
	b = b[atKey:]
	var ok bool
	if p.Key, b, ok = cutField(b); !ok {
		return Prefix{}, short
	}
	if p.Method, b, ok = cutField(b); !ok || len(b) < 2 {
		return Prefix{}, short
	}
	p.Meta.n = int(binary.BigEndian.Uint16(b))
	b = b[2:]
	pairs := b
	for range 2 * p.Meta.n {
		if _, b, ok = cutField(b); !ok {
			return Prefix{}, short
		}
	}
	p.Meta.b = pairs[:len(pairs)-len(b)]
	read := min(len(payload), MaxPrefix) - len(b)
	p.Body = payload[read:]
	return p, nil
}

// AppendPrefix appends a prefix to dst; the body follows it. service is a service key as it travels. The error is a prefix longer than
// MaxPrefix; dst is then returned as it was.
func AppendPrefix[P ~struct{ Key, Value string }](dst []byte, timeout uint32, c Codec, service, method string, meta []P) ([]byte, error) {
	size := PrefixFixed + len(service) + len(method)
	for _, p := range meta {
		size += 4 + len(pair(p).Key) + len(pair(p).Value)
	}
	if size > MaxPrefix {
		return dst, fmt.Errorf("rpc: a prefix of %d bytes, limit %d: service key, method and metadata are too long", size, MaxPrefix)
	}
	dst = binary.BigEndian.AppendUint32(dst, timeout)
	dst = append(dst, byte(c), 0)
	dst = appendField(dst, service)
	dst = appendField(dst, method)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(meta)))
	for _, p := range meta {
		dst = appendField(dst, pair(p).Key)
		dst = appendField(dst, pair(p).Value)
	}
	return dst, nil
}

type pair struct{ Key, Value string }

func appendField(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// Timeout returns the timeout in a prefix for the time that is left, in ms and rounded up, so that it is not 0. 0
// stands for no limit.
func Timeout(left time.Duration) uint32 {
	if left <= 0 {
		return 0
	}
	return uint32(min((left-1)/time.Millisecond+1, math.MaxUint32))
}

// Pairs are the metadata of a prefix as they travel: length and key, length and value, each.
type Pairs struct {
	n int
	b []byte
}

// Len returns the number of pairs.
func (r Pairs) Len() int { return r.n }

// All yields the pairs in order. Keys and values borrow from the payload.
func (r Pairs) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for b := r.b; len(b) > 0; {
			var key, value []byte
			key, b, _ = cutField(b)
			value, b, _ = cutField(b)
			if !yield(key, value) {
				return
			}
		}
	}
}

// cutField cuts a field, which follows its length of 16 bits, off b.
func cutField(b []byte) (field, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, b, false
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < n {
		return nil, b, false
	}
	return b[2:n:n], b[n:], true
}
