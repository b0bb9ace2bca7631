package websocket

import "fmt"

// Opcode says what a frame carries (RFC 6455 section 5.2).
type Opcode byte

const (
	opContinuation Opcode = 0x0
	// Text is a message of valid UTF-8.
	Text Opcode = 0x1
	// Binary is a message of any bytes.
	Binary  Opcode = 0x2
	opClose Opcode = 0x8
	opPing  Opcode = 0x9
	opPong  Opcode = 0xA
)

// String names the opcode.
func (o Opcode) String() string {
	switch o {
	case opContinuation:
		return "continuation"
	case Text:
		return "text"
	case Binary:
		return "binary"
	case opClose:
		return "close"
	case opPing:
		return "ping"
	case opPong:
		return "pong"
	}
	return fmt.Sprintf("opcode(%d)", byte(o))
}

func (o Opcode) control() bool { return o&0x8 != 0 }

// Close codes (RFC 6455 section 7.4 and the IANA registry). CloseNoStatus,
// CloseAbnormal and CloseTLSHandshake are never sent. The first two tell a
// handler that the peer gave no code, or that the connection ended without a
// close frame.
const (
	CloseNormal             = 1000
	CloseGoingAway          = 1001
	CloseProtocolError      = 1002
	CloseUnsupportedData    = 1003
	CloseNoStatus           = 1005
	CloseAbnormal           = 1006
	CloseInvalidPayload     = 1007
	ClosePolicyViolation    = 1008
	CloseMessageTooBig      = 1009
	CloseMandatoryExtension = 1010 // sent by clients only
	CloseInternalError      = 1011
	CloseServiceRestart     = 1012
	CloseTryAgainLater      = 1013
	CloseBadGateway         = 1014
	CloseTLSHandshake       = 1015
)

// sendable reports whether a close frame may carry the code, which is one
// assigned for the wire or in the ranges for libraries and applications.
func sendable(code int) bool {
	switch {
	case code >= 1000 && code <= 1003, code >= 1007 && code <= 1014:
		return true
	}
	return code >= 3000 && code <= 4999
}
