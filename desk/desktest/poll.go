package desktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy/desk/proto"
)

// Poll is a session by long poll as a Transport. One goroutine at a time may call Read; any may call the others.
type Poll struct {
	Base string
	ID   string

	http    *http.Client
	ctx     context.Context // of the polls; Close ends it
	cancel  context.CancelFunc
	sending sync.Mutex
	sent    int // requests with commands
	last    uint64
	waiting [][]byte
	end     *websocket.CloseError
}

// Polled is the answer to a poll.
type Polled struct {
	Last   uint64            `json:"last"`
	Events []json.RawMessage `json:"events"`
	Close  *struct {
		Code   int    `json:"code"`
		Reason string `json:"reason"`
	} `json:"close"`
}

// DialPoll opens a session by long poll, with extra request headers if given.
func DialPoll(ctx context.Context, base string, header http.Header) (*Poll, error) {
	p := &Poll{Base: base, http: &http.Client{Transport: withHeader{header, &http.Transport{}}}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	var opened struct{ ID string }
	if status, err := p.Ask(ctx, http.MethodPost, "/open", nil, &opened); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("desktest: opening: %d: %w", status, err)
	}
	p.ID = opened.ID
	return p, nil
}

// withHeader adds header fields to each request.
type withHeader struct {
	header http.Header
	next   *http.Transport
}

func (w withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range w.header {
		r.Header[k] = v
	}
	return w.next.RoundTrip(r)
}

// Ask makes one request about the session, rest being what follows the address of the long poll. Answers other than 2xx are
// errors, *proto.Error if the server says so.
func (p *Poll) Ask(ctx context.Context, method, rest string, body []byte, out any) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, p.Base+"/api/v1/poll"+rest, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+p.ID)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := p.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode/100 != 2 {
		e := new(proto.Error)
		if json.Unmarshal(data, e) != nil {
			e.Text = string(data)
		}
		return resp.StatusCode, e
	}
	if out != nil {
		err = json.Unmarshal(data, out)
	}
	return resp.StatusCode, err
}

// Write implements Transport.
func (p *Poll) Write(ctx context.Context, frame []byte) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.sent++
	_, err := p.Ask(ctx, http.MethodPost, fmt.Sprintf("?n=%d", p.sent), frame, nil)
	return err
}

// Read implements Transport. The end of the session is a websocket.CloseError.
func (p *Poll) Read(ctx context.Context) ([]byte, error) {
	for len(p.waiting) == 0 {
		if p.end != nil {
			return nil, *p.end
		}
		ctx, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(p.ctx, func() { cancel(errors.New("desktest: closed")) })
		got, err := p.Events(ctx, p.last)
		stop()
		cancel(nil)
		if err != nil {
			return nil, err
		}
		for _, e := range got.Events {
			p.waiting = append(p.waiting, e)
		}
		p.last = got.Last
		if c := got.Close; c != nil {
			p.end = &websocket.CloseError{Code: websocket.StatusCode(c.Code), Reason: c.Reason}
		}
	}
	frame := p.waiting[0]
	p.waiting = p.waiting[1:]
	return frame, nil
}

// Events makes one poll.
func (p *Poll) Events(ctx context.Context, after uint64) (got Polled, err error) {
	_, err = p.Ask(ctx, http.MethodGet, fmt.Sprintf("?after=%d", after), nil, &got)
	return got, err
}

// Close implements Transport. The server is not told.
func (p *Poll) Close() error {
	p.cancel()
	p.http.Transport.(withHeader).next.CloseIdleConnections()
	return nil
}
