package websocket

import (
	"encoding/binary"
	"math/bits"
)

// unmask XORs p in place with the masking key (RFC 6455 section 5.3), eight
// bytes at a time. It returns the key rotated, so that the next call continues
// where this one ended. The key is the wire bytes read as little endian.
func unmask(p []byte, key uint32) uint32 {
	if key == 0 {
		return 0
	}
	if len(p) >= 8 {
		wide := uint64(key)<<32 | uint64(key)
		for len(p) >= 32 {
			binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^wide)
			binary.LittleEndian.PutUint64(p[8:], binary.LittleEndian.Uint64(p[8:])^wide)
			binary.LittleEndian.PutUint64(p[16:], binary.LittleEndian.Uint64(p[16:])^wide)
			binary.LittleEndian.PutUint64(p[24:], binary.LittleEndian.Uint64(p[24:])^wide)
			p = p[32:]
		}
		for len(p) >= 8 {
			binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^wide)
			p = p[8:]
		}
	}
	for i := range p {
		p[i] ^= byte(key)
		key = bits.RotateLeft32(key, -8)
	}
	return key
}
