package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// MaxPrefix is the longest prefix of a request, in bytes. The package documentation has its fields.
const MaxPrefix = 16 << 10

// prefixFixed is the length of a prefix with empty fields: timeout, codec, flags, and three numbers of 16 bits.
const prefixFixed = 4 + 1 + 1 + 2 + 2 + 2

// Offsets of the first fields of a prefix.
const (
	atCodec = 4
	atFlags = 5
	atKey   = 6
)

// prefix is what precedes the body of a request. Its slices borrow from the payload.
type prefix struct {
	timeout     uint32 // ms that were left when the request was sent, 0 = no limit
	codec       Codec
	key, method []byte
	meta        rawPairs
	body        []byte
}

// Why a prefix does not parse.
var (
	errPrefixShort = errors.New("rpc: the prefix is cut short")
	errPrefixFlags = errors.New("rpc: the flags of the prefix are not 0")
	errPrefixCodec = errors.New("rpc: the codec of the prefix is unknown")
	errPrefixLong  = fmt.Errorf("rpc: the prefix is longer than %d bytes", MaxPrefix)
)

// parsePrefix reads the prefix of a payload, without allocations.
func parsePrefix(payload []byte) (p prefix, err error) {
	// A field that reaches beyond the limit is too long, whether or not the payload holds it.
	b := payload[:min(len(payload), MaxPrefix)]
	short := errPrefixShort
	if len(payload) > MaxPrefix {
		short = errPrefixLong
	}
	if len(b) < prefixFixed {
		return prefix{}, errPrefixShort
	}
	p.timeout = binary.BigEndian.Uint32(b)
	p.codec = Codec(b[atCodec])
	if p.codec >= codecs {
		return prefix{}, errPrefixCodec
	}
	if b[atFlags] != 0 {
		return prefix{}, errPrefixFlags
	}
	b = b[atKey:]
	var ok bool
	if p.key, b, ok = cutField(b); !ok {
		return prefix{}, short
	}
	if p.method, b, ok = cutField(b); !ok || len(b) < 2 {
		return prefix{}, short
	}
	p.meta.n = int(binary.BigEndian.Uint16(b))
	b = b[2:]
	pairs := b
	for range 2 * p.meta.n {
		if _, b, ok = cutField(b); !ok {
			return prefix{}, short
		}
	}
	p.meta.b = pairs[:len(pairs)-len(b)]
	read := min(len(payload), MaxPrefix) - len(b)
	p.body = payload[read:]
	return p, nil
}

// appendPrefix appends a prefix to dst; the body follows it. service is a Key's String. The error is a prefix longer than
// MaxPrefix; dst is then returned as it was.
func appendPrefix(dst []byte, timeout uint32, c Codec, service, method string, meta Metadata) ([]byte, error) {
	size := prefixFixed + len(service) + len(method)
	for _, p := range meta {
		size += 4 + len(p.Key) + len(p.Value)
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
		dst = appendField(dst, p.Key)
		dst = appendField(dst, p.Value)
	}
	return dst, nil
}

func appendField(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// prefixTimeout returns the timeout in a prefix for the time that is left, in ms and rounded up, so that it is not 0. 0
// stands for no limit.
func prefixTimeout(left time.Duration) uint32 {
	if left <= 0 {
		return 0
	}
	return uint32(min((left-1)/time.Millisecond+1, math.MaxUint32))
}
