package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// grpcInput reads the response of a call. One goroutine at a time owns it.
type grpcInput struct {
	ctx      context.Context
	e        *Error // what the call fails with; its fields for the cause are filled in
	o        *callOptions
	codec    payload.Codec
	limit    int           // of a message in bytes
	by       time.Time     // the deadline, zero for none
	left     time.Duration // till by, when the call began
	messages messages

	code    int                 // of HTTP
	head    []hpack.HeaderField // behind :status
	bare    bool                // nothing follows the header
	trailer []hpack.HeaderField
	checked bool
	end     error // of the response; sticky
}

// messages are those of a response. Next returns the next one, valid until the next call, or io.EOF when the trailer is there.
type messages interface {
	Next() (msg []byte, compressed bool, err error)
	// Sent reports, after the end of the request, whether the server may have it.
	Sent() bool
}

// one reads a response of one message.
func (in *grpcInput) one(into any) error {
	err := in.next(into)
	if err == nil {
		var more []byte
		switch err = in.nextBytes(&more); {
		case err == nil:
			return in.miscounted("the server has sent more than one message")
		case err == io.EOF: //nolint:errorlint // next returns it bare
			return nil
		}
		return err
	}
	if err == io.EOF { //nolint:errorlint // next returns it bare
		return in.miscounted("the server has sent no message, and no error")
	}
	return err
}

// miscounted fails a call that has another number of responses than one. The gRPC project has a code for that.
func (in *grpcInput) miscounted(text string) error {
	in.e.Err = &Status{Code: CodeUnimplemented, Message: text}
	return in.fail(frame.StatusProtocolError, text)
}

// next decodes the next message into v. The error is io.EOF after the last one of a call that has succeeded.
func (in *grpcInput) next(v any) error {
	var b []byte
	if err := in.nextBytes(&b); err != nil {
		return err
	}
	if _, unread := v.(*ignored); unread {
		return nil
	}
	if in.codec == payload.Raw {
		b = bytes.Clone(b) // a raw value borrows
	}
	if err := in.codec.DecodeResponse(b, v, in.o.strict); err != nil {
		in.e.Err = &causeError{kinds: kindsResponse, text: err.Error(), cause: err}
		in.end = in.e
		return in.end
	}
	return nil
}

func (in *grpcInput) nextBytes(into *[]byte) error {
	if in.end != nil {
		return in.end
	}
	msg, compressed, err := in.messages.Next()
	if !in.checked { // not before, because the loop fills in the header
		in.checked = true
		if err := in.check(err); err != nil {
			in.end = err
			return err
		}
	}
	if err == nil && compressed {
		if got := field(in.head, "grpc-encoding"); got != grpcwire.Gzip {
			return in.fail(frame.StatusProtocolError, fmt.Sprintf("a compressed message in the encoding %q", got))
		}
		msg, err = grpcwire.Decompress(msg, in.limit)
	}
	switch {
	case err == nil:
		*into = msg
		return nil
	case err == io.EOF: //nolint:errorlint // the Reader returns it bare
		in.end = in.status(in.trailer)
	case in.ctx.Err() != nil:
		in.e.Err = contextCause(in.ctx)
		in.end = in.e
	case err == io.ErrUnexpectedEOF: //nolint:errorlint // bare: the end of the response, and not that of its connection
		return in.fail(frame.StatusProtocolError, "the response ends inside a message")
	default:
		if large, ok := errors.AsType[*grpcwire.TooLargeError](err); ok {
			return in.fail(frame.StatusTooLarge, large.Error())
		}
		in.end = in.reset(err)
	}
	return in.end
}

// reset returns the error of a response that was cut short.
func (in *grpcInput) reset(err error) error {
	switch {
	case errors.Is(err, ErrDeadline), errors.Is(err, ErrCanceled): // as this side has said
		in.e.Err = err
		return in.e
	case ranOut(in.by, err):
		in.e.Err = errDeadline
		return in.e
	}
	if !in.e.resetByServer(err) {
		in.e.Err = &causeError{kinds: kindsLost, text: err.Error(), cause: err}
	}
	return in.e
}

// resetByServer reports whether the server has reset the stream of a call that it may have taken, and fills in e.
func (e *Error) resetByServer(err error) bool {
	s, ok := errors.AsType[*http2.StreamError](err)
	if !ok || !s.Remote || s.Code == http2.CodeRefusedStream {
		return false
	}
	e.synthesize(codeOfReset(s.Code), "the server has reset the stream: "+s.Code.String(), err)
	return true
}

// codeOfReset returns what the code of a server's reset means for a call, as the gRPC project maps them.
func codeOfReset(code http2.ErrCode) Code {
	switch code {
	case http2.CodeCancel:
		return CodeCanceled
	case http2.CodeEnhanceYourCalm:
		return CodeResourceExhausted
	case http2.CodeInadequate:
		return CodePermissionDenied
	}
	return CodeInternal
}

// synthesize fills in e for a call that its server has not ended by a status of gRPC.
func (e *Error) synthesize(code Code, text string, cause error) {
	if e.Status = statusOfCode(code); e.Status == frame.StatusAppError {
		e.Status = frame.StatusProtocolError
	}
	e.Message = text
	e.Err = &causeError{kinds: []error{&Status{Code: code, Message: text}}, text: text, cause: cause}
}

func (in *grpcInput) fail(status frame.Status, text string) error {
	in.e.Status, in.e.Message = status, text
	in.end = in.e
	return in.end
}

// check looks at the header of the response, which may have the status of the call. err is why there is none.
func (in *grpcInput) check(err error) error {
	if in.code == 0 {
		return in.lost(err)
	}
	in.e.Executed = ExecutedMaybe
	if in.o.header != nil {
		*in.o.header = responsePairs(in.head)
	}
	if in.bare && field(in.head, "grpc-status") != "" { // otherwise the trailer has it
		return in.status(in.head)
	}
	if kind := field(in.head, "content-type"); !isGRPC(in.code, kind) {
		in.e.synthesize(codeOfHTTP(in.code), fmt.Sprintf("the server has answered with HTTP status %d and content type %q", in.code, clip(kind)), nil)
		return in.e
	}
	return nil
}

// codeOfHTTP returns what a status of HTTP means for a call, as the gRPC project maps them.
func codeOfHTTP(status int) Code {
	switch status {
	case http.StatusBadRequest:
		return CodeInternal
	case http.StatusUnauthorized:
		return CodeUnauthenticated
	case http.StatusForbidden:
		return CodePermissionDenied
	case http.StatusNotFound:
		return CodeUnimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return CodeUnavailable
	}
	return CodeUnknown
}

// status returns the error of a call by the fields of its end, io.EOF if it has succeeded.
func (in *grpcInput) status(fields []hpack.HeaderField) error {
	if in.o.trailer != nil {
		*in.o.trailer = responsePairs(fields)
	}
	text := field(fields, "grpc-status")
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		in.e.Status, in.e.Message = frame.StatusProtocolError, fmt.Sprintf("the response ends with the grpc-status %q", clip(text))
		return in.e
	}
	if n == 0 {
		return io.EOF
	}
	s := &Status{Code: Code(n), Message: grpcwire.UnescapeMessage(field(fields, "grpc-message"))}
	if b, err := grpcwire.DecodeBinary(field(fields, "grpc-status-details-bin")); err == nil {
		s.unpack([]byte(b))
	}
	if ms, err := strconv.ParseInt(field(fields, "grpc-retry-pushback-ms"), 10, 32); err == nil && ms > 0 {
		s.RetryAfter = time.Duration(ms) * time.Millisecond
	}
	in.e.Status, in.e.Message, in.e.RetryAfter, in.e.Err = statusOfCode(s.Code), s.Message, s.RetryAfter, s
	return in.e
}

// statusOfCode returns the status of the frame protocol that says the same as a code, or APP_ERROR.
func statusOfCode(c Code) frame.Status {
	switch c {
	case CodeInvalidArgument:
		return frame.StatusBadRequest
	case CodeUnimplemented:
		return frame.StatusNotFound
	case CodeInternal, CodeDataLoss:
		return frame.StatusInternal
	case CodeResourceExhausted:
		return frame.StatusBusy
	case CodeDeadlineExceeded:
		return frame.StatusDeadlineExceeded
	case CodeCanceled:
		return frame.StatusCanceled
	case CodeUnavailable:
		return frame.StatusUnavailable
	case CodeUnauthenticated:
		return frame.StatusUnauthenticated
	}
	return frame.StatusAppError
}

// responsePairs returns the metadata of a response.
func responsePairs(fields []hpack.HeaderField) Metadata {
	var m Metadata
	for _, f := range fields {
		if !grpcwire.Reserved(f.Name) {
			m = appendReceived(m, f.Name, f.Value)
		}
	}
	return m
}
