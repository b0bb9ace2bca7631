package http2

import "encoding/binary"

// frameType is the type of a frame (RFC 9113 section 6, RFC 9218 section 7.1).
type frameType uint8

const (
	frameData           frameType = 0x0
	frameHeaders        frameType = 0x1
	framePriority       frameType = 0x2
	frameReset          frameType = 0x3
	frameSettings       frameType = 0x4
	framePushPromise    frameType = 0x5
	framePing           frameType = 0x6
	frameGoAway         frameType = 0x7
	frameWindowUpdate   frameType = 0x8
	frameContinuation   frameType = 0x9
	framePriorityUpdate frameType = 0x10
)

// The flags of frames.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

const (
	frameHeaderLen = 9
	// maxFrame is the longest payload that this side takes, and the longest that it sends. It is the least that every peer
	// takes (RFC 9113 section 4.2).
	maxFrame = 16 << 10
	// maxWindow is the largest window (RFC 9113 section 6.9.1).
	maxWindow = 1<<31 - 1
	// firstWindow is the window of a connection, and that of a stream before SETTINGS (RFC 9113 section 6.9.2).
	firstWindow = 65535
	// Preface is what a client sends first (RFC 9113 section 3.4).
	Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// The settings (RFC 9113 section 6.5.2, RFC 8441 section 3, RFC 9218 section 2.1).
const (
	settingTableSize       = 0x1
	settingPush            = 0x2
	settingMaxStreams      = 0x3
	settingWindow          = 0x4
	settingMaxFrame        = 0x5
	settingMaxHeaderList   = 0x6
	settingConnectProtocol = 0x8
	settingNoPriorities    = 0x9
)

// frame is the header of a frame.
type frame struct {
	length int
	typ    frameType
	flags  uint8
	stream uint32
}

func (f frame) has(flag uint8) bool { return f.flags&flag != 0 }

// parseFrame reads the header at the start of b, which has frameHeaderLen bytes or more. The reserved bit is ignored.
func parseFrame(b []byte) frame {
	return frame{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		typ:    frameType(b[3]),
		flags:  b[4],
		stream: binary.BigEndian.Uint32(b[5:]) & (1<<31 - 1),
	}
}

// appendFrame appends the header of a frame whose payload has n bytes.
func appendFrame(b []byte, n int, t frameType, flags uint8, stream uint32) []byte {
	b = append(b, byte(n>>16), byte(n>>8), byte(n), byte(t), flags)
	return binary.BigEndian.AppendUint32(b, stream)
}

func appendSetting(b []byte, id uint16, value uint32) []byte {
	b = binary.BigEndian.AppendUint16(b, id)
	return binary.BigEndian.AppendUint32(b, value)
}

// unpad cuts the padding off a payload, and the priority fields if the frame has some (RFC 9113 sections 6.1 and 6.2). self
// reports that the stream depends on itself.
func (f frame) unpad(p []byte) (rest []byte, self bool, err *ConnError) {
	pad := 0
	if f.has(flagPadded) {
		if len(p) == 0 {
			return nil, false, connError(CodeFrameSize, "a padded frame of no bytes")
		}
		pad, p = int(p[0]), p[1:]
	}
	if f.typ == frameHeaders && f.has(flagPriority) {
		if len(p) < 5 {
			return nil, false, connError(CodeFrameSize, "a HEADERS frame of %d bytes with priority", f.length)
		}
		self = binary.BigEndian.Uint32(p)&(1<<31-1) == f.stream
		p = p[5:]
	}
	if pad > len(p) {
		return nil, false, connError(CodeProtocol, "%d bytes of padding in a frame of %d", pad, f.length)
	}
	return p[:len(p)-pad], self, nil
}
