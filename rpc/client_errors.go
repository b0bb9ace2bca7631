package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
)

var (
	// ErrClientFull ends a call that one of the client's own bounds refuses; nothing was sent. The text names the bound
	// and its value. Such an error is ErrBusy, too.
	ErrClientFull = errors.New("rpc: client full")
	// ErrResponse ends a call whose response holds no value of the wanted type. The method was executed.
	ErrResponse = errors.New("rpc: response does not decode")
)

// causeError is a cause on the client's side that is of several kinds.
type causeError struct {
	kinds []error
	text  string
	cause error
}

func (e *causeError) Error() string { return e.text }

// Unwrap returns the kinds and the cause.
func (e *causeError) Unwrap() []error {
	if e.cause == nil {
		return e.kinds
	}
	return append(e.kinds[:len(e.kinds):len(e.kinds)], e.cause)
}

// Kinds of a causeError.
var (
	kindsResponse = []error{ErrResponse}
	kindsLost     = []error{ErrConnection}
	kindsProtocol = []error{ErrConnection, ErrProtocol}
	kindsDown     = []error{ErrConnection, ErrUnavailable}
)

var (
	errDeadline  = &causeError{kinds: []error{ErrDeadline, context.DeadlineExceeded}, text: "deadline exceeded"}
	errClosed    = &causeError{kinds: []error{ErrClosed}, text: "the client was closed"}
	errCanceled  = &causeError{kinds: []error{ErrCanceled, context.Canceled}, text: "cancelled"}
	errAway      = errors.New("rpc: the connection takes no calls") // never reaches a caller
	errNoAddress = &causeError{kinds: kindsDown, text: "no address: the resolver has returned none"}
)

// encodeError says why a request could not be encoded.
type encodeError struct{ error }

func (e encodeError) Unwrap() []error { return []error{ErrBadRequest, e.error} }

// limitError says which bound of the client was reached.
type limitError struct {
	kind     error
	what     string
	n, limit int
	option   string
}

func (e *limitError) Error() string {
	return fmt.Sprintf("%d %s, limit %d (%s)", e.n, e.what, e.limit, e.option)
}

func (e *limitError) Unwrap() error { return e.kind }

// Is matches ErrBusy if the client is full, as a full server does: the call was not executed and may be made again later.
func (e *limitError) Is(target error) bool { return e.kind == ErrClientFull && target == ErrBusy }

// lostError returns why the calls of an ended connection end.
func lostError(reason eddy.CloseReason, err error) error {
	kinds := kindsLost
	if reason == eddy.CloseProtocolError || reason == eddy.CloseFrameTooLarge {
		kinds = kindsProtocol
	}
	text := fmt.Sprintf("connection lost: %v", reason)
	if err != nil {
		text += ": " + err.Error()
	}
	return &causeError{kinds: kinds, text: text, cause: err}
}

// tooLongResponse returns the id of the response whose length ended the connection, 0 if something else ended it.
func tooLongResponse(err error) (id uint64, v *frame.ViolationError) {
	if v, ok := errors.AsType[*frame.ViolationError](err); ok && v.What == frame.PayloadTooLong {
		return v.ID, v
	}
	return 0, nil
}

// kindCodes are the codes of what fails without a Status of a server, the first one that matches.
var kindCodes = []struct {
	kind error
	code Code
}{
	{ErrDeadline, CodeDeadlineExceeded}, {context.DeadlineExceeded, CodeDeadlineExceeded}, {ErrCanceled, CodeCanceled}, {context.Canceled, CodeCanceled},
	{ErrBusy, CodeResourceExhausted}, {ErrTooLarge, CodeResourceExhausted}, {ErrUnavailable, CodeUnavailable}, {ErrConnection, CodeUnavailable}, {ErrClosed, CodeUnavailable},
	{ErrNotFound, CodeUnimplemented}, {ErrUnauthenticated, CodeUnauthenticated}, {ErrBadRequest, CodeInvalidArgument}, {ErrInternal, CodeInternal},
	{ErrResponse, CodeInternal}, {ErrProtocol, CodeInternal},
}

// CodeOf returns the code of gRPC for the error of a call, by any client of this package: that of the server's Status, or
// what comes next to the kind of the error. It is CodeOK for nil, and CodeUnknown for other errors.
func CodeOf(err error) Code {
	if err == nil {
		return CodeOK
	}
	if s, ok := errors.AsType[*Status](err); ok {
		return s.code()
	}
	for _, k := range kindCodes {
		if errors.Is(err, k.kind) {
			return k.code
		}
	}
	return CodeUnknown
}
