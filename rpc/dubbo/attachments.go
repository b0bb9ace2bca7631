package dubbo

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/dubbo/internal/hessian"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// versionKey is the attachment of a call by the dubbo protocol that has the version of the protocol.
const versionKey = "dubbo"

// answerMark begins a response whose value is followed by attachments; the kind of the answer is between them. No value of Hessian begins so.
const answerMark = 0x40

// attachments are those of a result or an exception. They are the context of its method, whose SetHeader and SetTrailer add to them.
type attachments struct {
	context.Context

	mu    sync.Mutex
	pairs []rpc.Pair
	over  bool // the method has returned
}

// attaching returns the context for the method of a call, nil attachments if its client does not read them.
func attaching(ctx context.Context) (context.Context, *attachments) {
	if info := rpc.CallFrom(ctx); info != nil {
		if version, ok := info.Metadata.Get(versionKey); ok && !takesAttachments(version) {
			return ctx, nil
		}
	}
	a := &attachments{Context: ctx}
	return a, a
}

// Value implements context.Context.
func (a *attachments) Value(key any) any {
	if _, ok := key.(payload.AnswerKey); ok {
		return payload.Answer[rpc.Pair](a)
	}
	return a.Context.Value(key)
}

// SetTrailer implements payload.Answer.
func (a *attachments) SetTrailer(pairs []rpc.Pair) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return rpc.ErrHeaderSent
	}
	a.pairs = append(a.pairs, pairs...)
	return nil
}

// SetHeader implements payload.Answer.
func (a *attachments) SetHeader(pairs []rpc.Pair) error { return a.SetTrailer(pairs) }

// SendHeader implements payload.Answer. There is nothing that is sent before the result.
func (a *attachments) SendHeader(pairs []rpc.Pair) error { return a.SetTrailer(pairs) }

// follow returns the response with the value and the attachments, which is the value alone without any.
func (a *attachments) follow(value []byte) []byte {
	b := a.end()
	if len(b) == 0 {
		return value
	}
	head := []byte{answerMark, answerNull}
	if value[0] != null {
		head = append([]byte{answerMark, answerValue}, value...)
	}
	return append(head, b...)
}

// end returns the attachments of a method that has returned, as a map; nothing for none.
func (a *attachments) end() []byte {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if len(a.pairs) == 0 {
		return nil
	}
	b := []byte{'H'}
	for i, p := range a.pairs {
		later := func(q rpc.Pair) bool { return q.Key == p.Key }
		if !slices.ContainsFunc(a.pairs[i+1:], later) { // a map has each key once
			b = appendText(appendText(b, p.Key), p.Value)
		}
	}
	return append(b, 'Z')
}

// failed returns the error of a call with what its client is told besides: the attachments, and that the call was a generic one.
func (a *attachments) failed(err error, generic bool) error {
	b := a.end()
	if len(b) == 0 && !generic {
		return err
	}
	return &failure{err, string(append(thrownHead(generic), b...))}
}

// failure is the error of a method with details. It implements payload.Detailed.
type failure struct {
	error

	details string
}

func (f *failure) Unwrap() error { return f.error }

// Details implements payload.Detailed.
func (f *failure) Details() string { return f.details }

// thrownHead begins the details of an error that is an exception. Its attachments follow, if there are any.
func thrownHead(generic bool) []byte {
	if generic {
		return []byte{answerMark, thrownGeneric}
	}
	return []byte{answerMark, thrown}
}

// The kinds of an exception in the details of an error.
const (
	thrown        = 0
	thrownGeneric = 1 // by a generic call
)

// splitThrown takes the details of an error apart. They are none of an exception unless ok.
func splitThrown(details string) (generic bool, attached string, ok bool) {
	if len(details) < 2 || details[0] != answerMark {
		return false, "", false
	}
	return details[1] == thrownGeneric, details[2:], true
}

// attachedTo returns the attachments of the exception that err is, nil for none.
func attachedTo(err error, l Limits) rpc.Metadata {
	e, ok := errors.AsType[*rpc.Error](err)
	if !ok {
		return nil
	}
	_, b, _ := splitThrown(e.Details)
	m, err := readAttachments([]byte(b), l)
	if err != nil {
		return nil
	}
	return m
}

// splitAnswer returns the value of a response and its attachments, nil for none.
func splitAnswer(body []byte, l Limits) (value []byte, m rpc.Metadata, err error) {
	if len(body) < 2 || body[0] != answerMark {
		return body, nil, nil
	}
	value, rest := []byte{null}, body[2:]
	if body[1] == answerValue {
		value = rest
		if rest, err = hessian.Check(value, 1, l); err != nil {
			return nil, nil, err
		}
		value = value[:len(value)-len(rest)]
	}
	m, err = readAttachments(rest, l)
	return value, m, err
}

// readAttachments returns the pairs of a map that are strings. A null may follow it.
func readAttachments(b []byte, l Limits) (rpc.Metadata, error) {
	end, err := hessian.Check(b, 1, l)
	if err != nil {
		return nil, err
	}
	m := rpc.Metadata{}
	err = hessian.Strings(b[:len(b)-len(end)], l, func(key, value string) { m = append(m, rpc.Pair{Key: key, Value: value}) })
	return m, err
}

// takesAttachments reports whether a client reads attachments of answers: from version 2.0.2 of the protocol on. Versions from 2.0.10 to 2.6.2, and 2.8, are those
// of programs in the place of the protocol's; they do not.
func takesAttachments(version string) bool {
	n := 0
	parts := strings.Split(version, ".")
	if len(parts) > 4 {
		return false
	}
	for i := range 4 {
		n *= 100
		if i < len(parts) {
			part, err := strconv.ParseUint(parts[i], 10, 7)
			if err != nil {
				return false
			}
			n += int(part)
		}
	}
	return n >= 2_00_02_00 && (n < 2_00_10_00 || n > 2_06_02_00) && (n < 2_08_00_00 || n >= 2_09_00_00)
}
