package http2

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-eddy/eddy"
)

// ErrCode is the code of a RST_STREAM or GOAWAY frame (RFC 9113 section 7).
type ErrCode uint32

// The codes of RFC 9113.
const (
	CodeNo              ErrCode = 0x0
	CodeProtocol        ErrCode = 0x1
	CodeInternal        ErrCode = 0x2
	CodeFlowControl     ErrCode = 0x3
	CodeSettingsTimeout ErrCode = 0x4
	CodeStreamClosed    ErrCode = 0x5
	CodeFrameSize       ErrCode = 0x6
	CodeRefusedStream   ErrCode = 0x7
	CodeCancel          ErrCode = 0x8
	CodeCompression     ErrCode = 0x9
	CodeConnect         ErrCode = 0xa
	CodeEnhanceYourCalm ErrCode = 0xb
	CodeInadequate      ErrCode = 0xc
	CodeHTTP11Required  ErrCode = 0xd
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// String returns the name that RFC 9113 gives the code, or its number.
func (c ErrCode) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code 0x%x", uint32(c))
}

// StreamError is the end of one stream before its time. The body of a request fails with it when the client has reset the
// stream, and so does a Write of its response.
type StreamError struct {
	Stream uint32
	Code   ErrCode
	Remote bool   // the peer has reset the stream
	Text   string // why, for a reset of our own
}

// Error names the stream and the code.
func (e *StreamError) Error() string {
	if e.Remote {
		return fmt.Sprintf("http2: stream %d was reset by the peer: %v", e.Stream, e.Code)
	}
	return fmt.Sprintf("http2: stream %d ended with %v: %s", e.Stream, e.Code, e.Text)
}

// ConnError is why a connection ends before its time. It is the cause of its close, and CloseHandlers are given it.
type ConnError struct {
	Code ErrCode
	Text string
}

// Error names the code and the reason.
func (e *ConnError) Error() string { return fmt.Sprintf("http2: %v: %s", e.Code, e.Text) }

// reason maps the error to a close reason.
func (e *ConnError) reason() eddy.CloseReason {
	switch e.Code {
	case CodeFrameSize:
		return eddy.CloseFrameTooLarge
	case CodeEnhanceYourCalm:
		return eddy.CloseAdmissionRejected
	}
	return eddy.CloseProtocolError
}

func connError(code ErrCode, format string, args ...any) *ConnError {
	return &ConnError{code, fmt.Sprintf(format, args...)}
}

const tooMany = "too many requests at once"

func tooLong(most int64) string {
	return "the body is over the limit of " + strconv.FormatInt(most, 10) + " bytes"
}

var (
	errReturned = errors.New("http2: the response is complete: the handler has returned")
	errSettled  = errors.New("the client has ended its side with the response longer than its windows")
	errStalled  = errors.New("the client's windows let too little of the response through in time")
	errBody     = errors.New("the request body did not arrive in time")
	errLate     = errors.New("the request was not answered in time")
)
