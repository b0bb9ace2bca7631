// Package deskload is the load of "eddy bench desk": customers and agents as WebSocket clients on the engine's loops, each with the duties of
// a reference client: contiguous sequences, resume after a lost connection, unacknowledged messages sent again.
package deskload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/websocket"
)

// Account is an agent's login.
type Account struct{ Login, Password string }

// Fleet are the clients of one server. Its methods may be called from any goroutine.
type Fleet struct {
	base   string
	site   string
	dialer *websocket.Dialer
	http   *http.Client
	ctx    context.Context
	cancel context.CancelFunc
	redial sync.WaitGroup
	places chan struct{} // connects under way

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced when something below changes
	customers []*Client
	agents    []*Client
	owner     map[string]*Client // by conversation: the agent that has it
	live      int
	faults    Faults
	acks      *hdrhistogram.Histogram // of the running measurement, nil = none
	peers     *hdrhistogram.Histogram
	acked     int64
	arrived   int64
	unacked   int64 // due and without an ack
}

// Faults count what must not happen. FirstError is the first of them, or of the refusals.
type Faults struct {
	Gaps       int64 // events that came ahead of their turn and had to be fetched
	Doubled    int64 // own messages that appeared twice
	Lost       int64 // acknowledged messages that are in no stream
	Refused    int64 // commands answered with an error
	FirstError string
}

const (
	maxLatency    = time.Minute
	connectPlaces = 128
	backoffBase   = 500 * time.Millisecond
	backoffCap    = 30 * time.Second
	busyPause     = 200 * time.Millisecond
)

// New returns a fleet without clients. Base is the server's address, such as http://127.0.0.1:8080.
func New(base, site string) *Fleet {
	ctx, cancel := context.WithCancel(context.Background())
	return &Fleet{
		base: base, site: site, ctx: ctx, cancel: cancel, changed: make(chan struct{}), owner: make(map[string]*Client), places: make(chan struct{}, connectPlaces),
		dialer: &websocket.Dialer{Engine: &eddy.Dialer{Logger: slog.New(slog.DiscardHandler)}, Options: websocket.Options{Subprotocols: []string{proto.Subprotocol}, RequireSubprotocol: true, PingInterval: -1}},
		http:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connectPlaces}, Timeout: maxLatency},
	}
}

// Close ends all clients.
func (f *Fleet) Close() error {
	f.cancel()
	err := f.dialer.Close()
	f.redial.Wait()
	f.http.CloseIdleConnections()
	return err
}

// note changes the state under the lock and wakes those who wait for a change.
func (f *Fleet) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// until waits for a condition, which it asks under the lock.
func (f *Fleet) until(ctx context.Context, what string, holds func() bool) error {
	for {
		f.mu.Lock()
		ok, changed, first := holds(), f.changed, f.faults.FirstError
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if first != "" {
				return fmt.Errorf("%s: %w; the first error of a client was: %s", what, ctx.Err(), first)
			}
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}

// AddCustomers connects n new visitors.
func (f *Fleet) AddCustomers(ctx context.Context, n int) error {
	return f.add(ctx, n, func(int) (*Client, error) {
		var s struct{ Token string }
		if err := f.post(ctx, f.http, "/api/v1/widget/session", map[string]string{"site": f.site}, &s); err != nil {
			return nil, err
		}
		return f.newClient(func(context.Context) (proto.Hello, error) { return proto.Hello{Token: s.Token, Locale: "en"}, nil }), nil
	}, &f.customers)
}

// AddAgents logs agents in and connects them.
func (f *Fleet) AddAgents(ctx context.Context, accounts []Account) error {
	return f.add(ctx, len(accounts), func(i int) (*Client, error) {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return nil, err
		}
		web := &http.Client{Transport: f.http.Transport, Jar: jar, Timeout: f.http.Timeout}
		if err := f.post(ctx, web, "/api/v1/agent/login", map[string]string{"login": accounts[i].Login, "password": accounts[i].Password}, nil); err != nil {
			return nil, err
		}
		c := f.newClient(func(ctx context.Context) (proto.Hello, error) {
			var t struct{ Ticket string }
			err := f.post(ctx, web, "/api/v1/agent/ticket", nil, &t)
			return proto.Hello{Ticket: t.Ticket, Locale: "en"}, err
		})
		c.staff = true
		return c, nil
	}, &f.agents)
}

// add makes n clients, some at a time, and waits until they have been welcomed.
func (f *Fleet) add(ctx context.Context, n int, create func(i int) (*Client, error), list *[]*Client) error {
	made := make(chan error, n)
	places := make(chan struct{}, 16)
	for i := range n {
		places <- struct{}{}
		go func() {
			defer func() { <-places }()
			c, err := create(i)
			if err == nil {
				f.note(func() { *list = append(*list, c) })
				f.connect(c, 0)
			}
			made <- err
		}()
	}
	var errs error
	for range n {
		errs = errors.Join(errs, <-made)
	}
	if errs != nil {
		return errs
	}
	return f.until(ctx, "connecting", func() bool { return f.live == len(f.customers)+len(f.agents) })
}

// post sends a request, again while the server says that it is busy.
func (f *Fleet) post(ctx context.Context, web *http.Client, path string, in, out any) error {
	for {
		err := f.postOnce(ctx, web, path, in, out)
		if !errors.Is(err, errBusy) {
			return err
		}
		select {
		case <-time.After(rand.N(busyPause)):
		case <-ctx.Done():
			return err
		}
	}
}

var errBusy = errors.New("the server is busy")

func (f *Fleet) postOnce(ctx context.Context, web *http.Client, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return fmt.Errorf("POST %s: %w: %.200s", path, errBusy, bytes.TrimSpace(data))
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("POST %s: %s: %.200s", path, resp.Status, bytes.TrimSpace(data))
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, out)
}

// connect dials in the background, and again with a growing, jittered pause until it succeeds or the fleet is closed.
func (f *Fleet) connect(c *Client, attempt int) {
	f.redial.Go(func() {
		for ; f.ctx.Err() == nil; attempt++ {
			if attempt > 0 {
				pause := rand.N(min(backoffBase<<min(attempt-1, 10), backoffCap))
				select {
				case <-time.After(pause):
				case <-f.ctx.Done():
					return
				}
			}
			if f.dial(c) == nil {
				return
			}
		}
	})
}

func (f *Fleet) dial(c *Client) error {
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
	hello, err := c.hello(f.ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	hello.Seen = c.seen()
	f.mu.Unlock()
	conn, err := f.dialer.Dial(f.ctx, "ws"+strings.TrimPrefix(f.base, "http")+"/ws", c)
	if err != nil {
		return err
	}
	return c.write(conn, "hello", "hello", "", hello)
}

// Live returns how many clients have been welcomed and not lost since.
func (f *Fleet) Live() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live
}

// Faults returns what has gone wrong so far. Messages that were acknowledged and are in no stream are counted as they are now.
func (f *Fleet) Faults() Faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	faults := f.faults
	for _, list := range [][]*Client{f.customers, f.agents} {
		for _, c := range list {
			for _, m := range c.own {
				if m.acked && m.shown == 0 {
					faults.Lost++
				}
			}
		}
	}
	return faults
}

func (f *Fleet) refused(text string) {
	f.faults.Refused++
	if f.faults.FirstError == "" {
		f.faults.FirstError = text
	}
}

func closedByUs(err error) bool {
	return errors.Is(err, eddy.ErrClosed) || errors.Is(err, context.Canceled)
}
