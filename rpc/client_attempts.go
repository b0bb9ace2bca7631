package rpc

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/internal/attempts"
)

// triedNodes are the servers to which attempts at a call were sent. Two attempts may share it. A nil one has none.
type triedNodes struct {
	mu    sync.Mutex
	nodes []*balance.Node
}

func (t *triedNodes) add(n *balance.Node) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes = append(t.nodes, n)
}

func (t *triedNodes) list() []*balance.Node {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.nodes)
}

// outcomeOf returns what a status says of its server.
func outcomeOf(s frame.Status) balance.Outcome {
	switch s {
	case frame.StatusInternal, frame.StatusUnavailable, frame.StatusDeadlineExceeded, frame.StatusProtocolError:
		return balance.Failed
	case frame.StatusBusy:
		return balance.Refused
	case frame.StatusCanceled:
		return balance.Unknown
	}
	return balance.Succeeded
}

// outcomeOfHead returns what the header of a response by gRPC says of its server.
func outcomeOfHead(status int, fields []hpack.HeaderField) balance.Outcome {
	code := codeOfHTTP(status)
	if status == http.StatusOK {
		n, _ := strconv.ParseUint(field(fields, "grpc-status"), 10, 32) // 0 = none yet
		code = Code(n)
	}
	return outcomeOf(statusOfCode(code))
}

// outcomeOfError returns what the end of a call says of its server.
func outcomeOfError(err error) balance.Outcome {
	if err == nil {
		return balance.Succeeded
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok, errors.Is(err, ErrClosed), errors.Is(err, ErrCanceled), errors.Is(err, ErrClientFull):
		return balance.Unknown
	case e.Status != frame.StatusOK:
		return outcomeOf(e.Status)
	case errors.Is(err, ErrConnection), errors.Is(err, ErrDeadline), errors.Is(err, ErrProtocol):
		return balance.Failed
	case e.Executed == ExecutedNo: // it never left this side
		return balance.Unknown
	}
	return balance.Succeeded
}

// judge says whether a call that ended with err may be made again.
func judge(err error) attempts.Verdict {
	v := attempts.Verdict{Outcome: outcomeOfError(err)}
	e, ok := errors.AsType[*Error](err)
	again := ok && (v.Outcome == balance.Refused || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrConnection))
	switch {
	case !again || errors.Is(err, ErrClosed) || errors.Is(err, ErrClientFull):
	case e.Executed == ExecutedNo:
		v.Again, v.After = attempts.Yes, e.RetryAfter
	default:
		v.Again, v.After = attempts.IfIdempotent, e.RetryAfter
	}
	return v
}

// errBroken ends a call that the breaker of its service does not let through.
var errBroken = &causeError{kinds: []error{ErrUnavailable}, text: attempts.ErrBroken.Error(), cause: attempts.ErrBroken}

// answer is what an attempt brings.
type answer[Resp any] struct {
	resp            *Resp
	header, trailer Metadata
}

// attempted makes a call as often as m says. once makes an attempt, with options of its own, and decodes into resp.
func attempted[Resp any](ctx context.Context, m *attempts.Maker, key Key, method string, o callOptions, once func(ctx context.Context, resp any, o callOptions) error) (*Resp, error) {
	o.tried = new(triedNodes)
	c := attempts.Call[*answer[Resp]]{Service: key, Idempotent: o.idempotent}
	if o.timeout > 0 {
		c.By = time.Now().Add(o.timeout)
	}
	c.Attempt = func(ctx context.Context) (*answer[Resp], error) {
		a, mine := &answer[Resp]{resp: new(Resp)}, o
		if o.header != nil {
			mine.header = &a.header
		}
		if o.trailer != nil {
			mine.trailer = &a.trailer
		}
		if o.timeout > 0 { // what is left of it
			mine.timeout = max(1, time.Until(c.By))
		}
		return a, once(ctx, a.resp, mine)
	}
	c.Judge = func(_ *answer[Resp], err error) attempts.Verdict { return judge(err) }
	a, err := attempts.Do(ctx, m, &c)
	if err == attempts.ErrBroken { //nolint:errorlint // returned bare
		return nil, &Error{Service: key.String(), Method: method, Executed: ExecutedNo, Err: errBroken}
	}
	if a != nil && o.header != nil {
		*o.header = a.header
	}
	if a != nil && o.trailer != nil {
		*o.trailer = a.trailer
	}
	if err != nil {
		return nil, err
	}
	return a.resp, nil
}
