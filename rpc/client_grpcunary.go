package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
)

// grpcUnary is a call with one response, and the memory that the next one uses again. The loop puts the response into it
// and then wakes the caller, once.
type grpcUnary struct {
	in      grpcInput
	e       Error
	o       callOptions
	request http2.Request
	timer   *time.Timer // of the deadline that is not the context's, nil before the first
	done    chan struct{}

	err   error // why the response is not whole
	buf   []byte
	need  int  // length of the message in buf with its prefix, 0 before that has come
	at    int  // what of buf Next has returned
	known bool // somebody may still know the call after its end
}

// errSecond ends a response that has more than one message.
var errSecond = errors.New("rpc: a second message")

// errNoGRPC ends a response that is none of gRPC.
var errNoGRPC = errors.New("rpc: no response of gRPC")

func (cl *GRPCClient) newUnary() *grpcUnary {
	if u, ok := cl.unaries.Get().(*grpcUnary); ok {
		return u
	}
	u := &grpcUnary{done: make(chan struct{}, 1)}
	u.request.Answer = u
	u.in.e, u.in.o, u.in.messages = &u.e, &u.o, u
	return u
}

// keep puts the memory of a call that has succeeded aside for the next one, unless somebody may still know it.
func (cl *GRPCClient) keep(u *grpcUnary) {
	if u.known || u.request.Retried() {
		return
	}
	if cap(u.buf) > keptBody {
		u.buf = nil
	}
	if cap(u.request.Body) > keptBody {
		u.request.Body = nil
	}
	clear(u.in.head)
	clear(u.in.trailer)
	clear(u.request.Fields)
	u.in = grpcInput{e: &u.e, o: &u.o, messages: u, head: u.in.head[:0], trailer: u.in.trailer[:0]}
	u.o, u.buf, u.need, u.at = callOptions{}, u.buf[:0], 0, 0
	cl.unaries.Put(u)
}

// invoke makes one call with one response.
func (cl *GRPCClient) invoke(ctx context.Context, key Key, method string, req, resp any, o callOptions) error {
	m := cl.method(key, method)
	u := cl.newUnary()
	u.o, u.e = o, Error{Service: m.service, Method: method, Executed: ExecutedNo}
	in := &u.in
	like := req
	if like == nil {
		like = resp
	}
	codec, kind := codecFor(&u.o, like)
	msg, err := cl.pack(u.request.Body[:0], codec, req)
	if err != nil {
		u.e.Err = encodeError{err}
		return &u.e
	}
	in.ctx, in.codec, in.limit = ctx, codec, cl.o.MaxPayload
	own := in.until(u.o.timeout)
	fields, err := cl.fields(u.request.Fields[:0], in, m, kind)
	if err != nil {
		u.e.Err = err
		return &u.e
	}
	var tried []*balance.Node // that have certainly not taken the call
	for {
		to, err := cl.pick(ctx, in.by, &u.o, tried)
		if err != nil {
			u.e.Err = err
			return &u.e
		}
		u.request.Body, u.request.Fields = msg, fields
		to.aim(&u.request)
		begun := cl.begun()
		again := u.attempt(cl.o.Transport, own) && u.in.code == 0 && untouched(u.err) && ctx.Err() == nil
		if !again || len(tried)+1 >= cl.servers.Len() {
			err := u.in.one(resp)
			cl.ended(to, begun, err, u.Sent())
			if err == nil {
				cl.keep(u)
			}
			return err
		}
		tried = append(tried, to.node)
		cl.ended(to, begun, errUntaken, u.Sent() || errors.Is(u.err, http2.ErrTransportBusy))
		u = u.another(cl)
		in = &u.in
		if !in.by.IsZero() {
			in.left = time.Until(in.by) // the next server is told what is left
		}
		if fields, err = cl.fields(nil, in, m, kind); err != nil {
			u.e.Err = err
			return &u.e
		}
	}
}

// another returns a call like u for the next target. Somebody may still know u.
func (u *grpcUnary) another(cl *GRPCClient) *grpcUnary {
	next := cl.newUnary()
	next.o, next.e, next.err = u.o, u.e, u.err
	next.in.ctx, next.in.codec, next.in.limit, next.in.by = u.in.ctx, u.in.codec, u.in.limit, u.in.by
	return next
}

// attempt sends the request to one target and waits for the end. own says that the deadline is not the context's. The result
// is whether the target may have failed, so that another one may do better.
func (u *grpcUnary) attempt(t *http2.Transport, own bool) (failed bool) {
	u.err = nil
	if err := t.Begin(&u.request); err != nil {
		u.err = err
		return true
	}
	if own {
		u.arm()
		defer func() { u.known = u.known || !u.timer.Stop() }()
	}
	if over := u.in.ctx.Done(); over == nil {
		<-u.done
	} else {
		select {
		case <-u.done:
		case <-over:
			u.known = true
			u.request.Cancel(contextCause(u.in.ctx))
			<-u.done // comes soon
		}
	}
	return u.err != nil
}

// arm starts the timer of the deadline.
func (u *grpcUnary) arm() {
	left := time.Until(u.in.by)
	if u.timer == nil {
		u.timer = time.AfterFunc(left, func() { u.request.Cancel(errDeadline) })
		return
	}
	u.timer.Reset(left)
}

// Head implements http2.Answer.
func (u *grpcUnary) Head(status int, fields []hpack.HeaderField, end bool) error {
	return u.in.takeHead(status, fields, end)
}

// Data implements http2.Answer. Memory grows with what comes, so that a length alone costs nothing.
func (u *grpcUnary) Data(p []byte) (taken int, err error) {
	if more := u.need - len(u.buf); more > 0 && cap(u.buf) < u.need {
		u.buf = slices.Grow(u.buf, min(more, max(len(u.buf), keptBody)))
	}
	u.buf = append(u.buf, p...)
	if u.need == 0 && len(u.buf) >= grpcwire.PrefixLen {
		n, _, err := grpcwire.ParsePrefix(u.buf, u.in.limit)
		if err != nil {
			return 0, err //nolint:wrapcheck // Next says it again
		}
		u.need = grpcwire.PrefixLen + n
	}
	if u.need > 0 && len(u.buf) > u.need {
		return 0, errSecond
	}
	return len(p), nil
}

// Trailer implements http2.Answer.
func (u *grpcUnary) Trailer(fields []hpack.HeaderField) {
	u.in.trailer = append(u.in.trailer[:0], fields...)
}

// Over implements http2.Answer.
func (u *grpcUnary) Over(err error) {
	u.err = err
	u.done <- struct{}{}
}

// Next returns the message, or why there is none. The caller owns u again.
func (u *grpcUnary) Next() (msg []byte, compressed bool, err error) {
	msg, compressed, rest, err := grpcwire.Split(u.buf[u.at:], u.in.limit)
	switch {
	case err == nil:
		u.at = len(u.buf) - len(rest)
	case u.err == errSecond: //nolint:errorlint // our own
		return nil, false, nil
	case u.err != nil && (err == io.EOF || err == io.ErrUnexpectedEOF): //nolint:errorlint // Split returns them bare
		err = u.err
	}
	return msg, compressed, err
}

// Sent implements messages.
func (u *grpcUnary) Sent() bool { return u.request.Sent() }

// takeHead takes the header section of a response. The error says that it is none of gRPC.
func (in *grpcInput) takeHead(status int, fields []hpack.HeaderField, end bool) error {
	in.code, in.bare, in.head = status, end, append(in.head[:0], fields...)
	if !end && !isGRPC(status, field(fields, "content-type")) {
		return errNoGRPC
	}
	return nil
}

// isGRPC reports whether a response with this status and content type is one of gRPC.
func isGRPC(status int, kind string) bool {
	return status == http.StatusOK && strings.HasPrefix(kind, contentType)
}

// field returns the value of the first field of this name, "" if there is none.
func field(fields []hpack.HeaderField, name string) string {
	for i := range fields {
		if fields[i].Name == name {
			return fields[i].Value
		}
	}
	return ""
}
