package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-eddy/eddy"
)

// Status is the outcome of a request.
type Status uint8

// The statuses.
const (
	StatusOK               Status = 0
	StatusBadRequest       Status = 1
	StatusNotFound         Status = 2
	StatusAppError         Status = 3 // the application returned an error
	StatusInternal         Status = 4 // the application panicked
	StatusBusy             Status = 5 // not executed: no room
	StatusDeadlineExceeded Status = 6
	StatusCanceled         Status = 7
	StatusUnavailable      Status = 8 // not executed: the server is draining
	StatusTooLarge         Status = 9
	StatusUnauthenticated  Status = 10

	StatusProtocolError Status = 64 // the connection closes afterwards
	StatusGoAway        Status = 65 // with id 0: finish what is in flight, open no new requests here
)

var statusNames = map[Status]string{
	StatusOK: "OK", StatusBadRequest: "BAD_REQUEST", StatusNotFound: "NOT_FOUND", StatusAppError: "APP_ERROR", StatusInternal: "INTERNAL",
	StatusBusy: "BUSY", StatusDeadlineExceeded: "DEADLINE_EXCEEDED", StatusCanceled: "CANCELLED", StatusUnavailable: "UNAVAILABLE",
	StatusTooLarge: "TOO_LARGE", StatusUnauthenticated: "UNAUTHENTICATED", StatusProtocolError: "PROTOCOL_ERROR", StatusGoAway: "GOAWAY",
}

// String returns the status's name in the protocol, or its number.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("STATUS %d", uint8(s))
}

// StatusError is a status other than OK. A handler returns one to choose the answer to its client.
type StatusError struct {
	Status     Status
	RetryAfter time.Duration // advice, in milliseconds on the wire; 0 = none
	Message    string
	Details    string // bytes of the application for its client, behind the message; a Server leaves them out beyond Options.MaxPayload
}

// Error implements error.
func (e *StatusError) Error() string {
	s := "frame: " + e.Status.String()
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(" (retry after %v)", e.RetryAfter)
	}
	return s
}

// errorHead is the length of the fields before the message in the payload of a status other than OK.
const errorHead = 6

// maxMessage is the longest message in bytes that is sent; longer ones are cut. The format has room for 65535 bytes.
const maxMessage = 1 << 10

// AppendError appends a whole response with a status other than OK to dst. Invalid UTF-8 in the message is replaced, and
// the message cut to 1 KiB.
func AppendError(dst []byte, id uint64, e *StatusError) []byte {
	m := message(e.Message)
	dst = AppendHeader(dst, id, uint8(e.Status), errorHead+len(m)+len(e.Details))
	dst = binary.BigEndian.AppendUint32(dst, retryMillis(e.RetryAfter))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(m)))
	return append(append(dst, m...), e.Details...)
}

// Refuse returns the answer BUSY to a client whose connection is not taken. Set it as eddy.Admission.Busy, with
// eddy.DecisionBusy, unless another layer such as TLS comes before the frames. Any goroutine.
func Refuse(r eddy.Refusal) []byte {
	return AppendError(nil, 0, &StatusError{Status: StatusBusy, RetryAfter: r.RetryAfter, Message: "the server takes no more connections: " + r.Cause.String()})
}

// retryMillis returns d in milliseconds, rounded up, because a client that comes a little early would be refused again.
func retryMillis(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32(min((d-1)/time.Millisecond+1, math.MaxUint32))
}

func message(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxMessage {
		return s
	}
	n := maxMessage
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

var errErrorPayload = errors.New("frame: the payload of an error response is malformed")

// Err returns nil for a response with the status OK, else a *StatusError from the payload. If the payload is malformed, Err
// returns an error that says so.
func (f *Frame) Err() error {
	if f.Status() == StatusOK {
		return nil
	}
	p := f.Payload
	end := errorHead
	if len(p) >= errorHead {
		end += int(binary.BigEndian.Uint16(p[4:]))
	}
	if len(p) < end || !utf8.Valid(p[errorHead:end]) {
		return fmt.Errorf("%w: %v with %d bytes", errErrorPayload, f.Status(), len(p))
	}
	return &StatusError{
		Status:     f.Status(),
		RetryAfter: time.Duration(binary.BigEndian.Uint32(p)) * time.Millisecond,
		Message:    string(p[errorHead:end]),
		Details:    string(p[end:]),
	}
}
