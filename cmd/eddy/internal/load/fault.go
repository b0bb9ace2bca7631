package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// The kinds of errors, as a result counts them. Each error ends its connection.
const (
	KindRefused     = "refused"      // nobody listens, or the server's queue of connections is full
	KindReset       = "reset"        // the server ended the connection by force
	KindClosed      = "closed"       // the server ended the connection in order
	KindTimeout     = "timeout"      // no connection or handshake in time
	KindDescriptors = "descriptors"  // this process or this machine has no more of them, or no port
	KindTLS         = "tls"          // no TLS handshake
	KindHandshake   = "handshake"    // no WebSocket handshake
	KindStatus      = "status"       // an answer that says the request failed
	KindWrongAnswer = "wrong_answer" // an answer that is not the one to the request
	KindOther       = "other"
)

// fault is an error whose kind is known where the error is made.
type fault struct {
	kind string
	error
}

// Unwrap returns the error itself.
func (f *fault) Unwrap() error { return f.error }

func wrong(format string, args ...any) error {
	return &fault{KindWrongAnswer, fmt.Errorf("wrong answer: "+format, args...)}
}

var errClosed = errors.New("the server closed the connection")

// closedByServer replaces the end of the stream by an error that says what happened.
func closedByServer(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errClosed
	}
	return err
}

// kindOf returns the kind of an error.
func kindOf(err error) string {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.kind
	}
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return KindRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return KindReset
	case errors.Is(err, errClosed):
		return KindClosed
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EADDRNOTAVAIL):
		return KindDescriptors
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return KindTimeout
	case isTLS(err):
		return KindTLS
	}
	return KindOther
}

func isTLS(err error) bool {
	var header tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &header) || errors.As(err, &alert)
}
