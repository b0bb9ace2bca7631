package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-eddy/eddy/codec/frame"
)

// Kinds of Error, for errors.Is.
var (
	ErrBadRequest      = errors.New("rpc: bad request")               // BAD_REQUEST: prefix or body do not parse, or a request id was used twice
	ErrNotFound        = errors.New("rpc: no such service or method") // NOT_FOUND
	ErrApp             = errors.New("rpc: the method failed")         // APP_ERROR
	ErrInternal        = errors.New("rpc: internal error")            // INTERNAL: the method panicked, returned nil without an error, or its response has no encoding
	ErrBusy            = errors.New("rpc: busy")                      // BUSY: not executed, there was no room. ErrClientFull is this too
	ErrDeadline        = errors.New("rpc: deadline exceeded")         // DEADLINE_EXCEEDED; is context.DeadlineExceeded too
	ErrCanceled        = errors.New("rpc: cancelled")                 // CANCELLED; is context.Canceled too
	ErrUnavailable     = errors.New("rpc: unavailable")               // UNAVAILABLE: not executed, the server is going
	ErrTooLarge        = errors.New("rpc: too large")                 // TOO_LARGE: request or response is longer than the limit
	ErrUnauthenticated = errors.New("rpc: unauthenticated")           // UNAUTHENTICATED
	ErrProtocol        = errors.New("rpc: protocol error")            // PROTOCOL_ERROR, or the other side speaks something else

	ErrConnection = errors.New("rpc: connection lost") // no response came
	ErrClosed     = errors.New("rpc: closed")          // the Server or Client was closed
)

var statusErrors = map[frame.Status]error{
	frame.StatusBadRequest:       ErrBadRequest,
	frame.StatusNotFound:         ErrNotFound,
	frame.StatusAppError:         ErrApp,
	frame.StatusInternal:         ErrInternal,
	frame.StatusBusy:             ErrBusy,
	frame.StatusDeadlineExceeded: ErrDeadline,
	frame.StatusCanceled:         ErrCanceled,
	frame.StatusUnavailable:      ErrUnavailable,
	frame.StatusTooLarge:         ErrTooLarge,
	frame.StatusUnauthenticated:  ErrUnauthenticated,
	frame.StatusProtocolError:    ErrProtocol,
}

// Executed says whether a call that failed was executed.
type Executed uint8

const (
	// ExecutedMaybe means that the call may have been executed, or that the method itself failed.
	ExecutedMaybe Executed = iota
	// ExecutedNo means certainly not executed. The call may be made again, elsewhere or later.
	ExecutedNo
)

// String returns "maybe" or "no".
func (e Executed) String() string {
	if e == ExecutedNo {
		return "no"
	}
	return "maybe"
}

// Error says why a call failed. Use errors.Is with the errors of this package to tell the kinds apart.
type Error struct {
	Status     frame.Status  // of the response; StatusOK if none came, and then Err says why
	RetryAfter time.Duration // the server's advice, 0 = none
	Message    string
	Details    string // bytes that the server's method has added, such as the attachments of an exception, for packages that know them
	Service    string // the key, group/interface:version
	Method     string
	Executed   Executed
	Err        error // the cause on this side, or nil
}

// statusError returns the Error for a response with a status other than OK. BUSY and UNAVAILABLE mean "not executed".
func statusError(e *frame.StatusError, service, method string) *Error {
	err := &Error{Status: e.Status, RetryAfter: e.RetryAfter, Message: e.Message, Details: e.Details, Service: service, Method: method}
	if e.Status == frame.StatusBusy || e.Status == frame.StatusUnavailable {
		err.Executed = ExecutedNo
	}
	return err
}

// Error implements error.
func (e *Error) Error() string {
	s := "rpc: " + e.Service + " " + e.Method + ": "
	switch {
	case e.Status != frame.StatusOK:
		s += e.Status.String()
		if e.Message != "" {
			s += ": " + e.Message
		}
	case e.Err != nil:
		s += e.Err.Error()
	default:
		s += e.Message
	}
	if e.Executed == ExecutedNo {
		s += " (not executed)"
	}
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(" (retry after %v)", e.RetryAfter)
	}
	return s
}

// Unwrap returns the cause on this side.
func (e *Error) Unwrap() error { return e.Err }

// Is matches the kind of the status, and for two of them the error of package context.
func (e *Error) Is(target error) bool {
	switch e.Status {
	case frame.StatusDeadlineExceeded:
		if target == context.DeadlineExceeded {
			return true
		}
	case frame.StatusCanceled:
		if target == context.Canceled {
			return true
		}
	}
	is, ok := statusErrors[e.Status]
	return ok && target == is
}
