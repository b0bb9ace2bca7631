package websocket

import "encoding/binary"

// Bits of the first two bytes of a frame (RFC 6455 section 5.2).
const (
	finBit  = 0x80
	rsv1Bit = 0x40
	rsv2Bit = 0x20
	rsv3Bit = 0x10
	maskBit = 0x80
)

// maxHeader is the largest header of a frame, maxServerHeader that of one that
// is not masked.
const (
	maxServerHeader = 10
	maxHeader       = maxServerHeader + 4
)

// appendHeader appends the header of an unmasked frame.
func appendHeader(b []byte, first byte, size int) []byte {
	switch {
	case size < 126:
		return append(b, first, byte(size))
	case size < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, first, 126), uint16(size))
	}
	return binary.BigEndian.AppendUint64(append(b, first, 127), uint64(size))
}

// appendMasked appends a masked frame with a copy of the payload.
func appendMasked(b []byte, first byte, payload []byte, key uint32) []byte {
	at := len(b)
	b = appendHeader(b, first, len(payload))
	b[at+1] |= maskBit
	b = binary.LittleEndian.AppendUint32(b, key)
	at = len(b)
	b = append(b, payload...)
	unmask(b[at:], key)
	return b
}

// first returns the first byte of an unfragmented frame.
func first(op Opcode) byte { return finBit | byte(op) }
