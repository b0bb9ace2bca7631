// Package deskload is the load of "eddy bench desk": customers and agents as WebSocket clients on the engine's loops.
// Each client does what a reference client must. It keeps sequences contiguous and resumes after a lost connection with
// a jittered back-off. It sends unacknowledged messages again, with one message of a conversation under way at a time.
// Every client checks what it is shown.
package deskload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// Fleet is all clients of one server. Any goroutine may call its methods.
type Fleet struct {
	// Progress, if set, is called from time to time with what is being waited for. Set it before anything else is
	// called.
	Progress func(text string)

	bases  []string
	site   string
	dialer *websocket.Dialer
	http   *http.Client
	ctx    context.Context
	cancel context.CancelFunc
	redial sync.WaitGroup
	places chan struct{} // first connects under way

	mu        sync.Mutex
	customers []*Client
	agents    []*Client
	owner     map[string]*Client // by conversation: the agent that has it
	posts     map[string]*posted // by client id
	said      int64              // messages that clients were given
	live      int
	opening   int   // conversations asked for and not opened yet
	taking    int   // conversations that agents are taking
	dials     int64 // attempts to connect
	unacked   int64 // messages that wait for an ack
	faults    Faults
	refusals  context.CancelCauseFunc // ends what no refusal may happen to, nil = nothing
	acked     int64
	arrived   int64                   // messages that the other side has been shown, or that were refused for good
	acks      *hdrhistogram.Histogram // of the running measurement, nil = none
	peers     *hdrhistogram.Histogram
}

const (
	maxLatency    = time.Minute
	connectPlaces = 128
	createPlaces  = 16
	openPlaces    = 256
	takePlaces    = 128
	pollEvery     = 2 * time.Millisecond
	progressEvery = 5 * time.Second
)

// New returns a fleet without clients. Each connection, and each request, goes to any of the bases, which are addresses of
// servers such as http://127.0.0.1:8080.
func New(site string, bases ...string) *Fleet {
	ctx, cancel := context.WithCancel(context.Background())
	return &Fleet{
		bases: bases, site: site, ctx: ctx, cancel: cancel, owner: make(map[string]*Client), posts: make(map[string]*posted), places: make(chan struct{}, connectPlaces),
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

// until waits for a condition. left, called under the lock, says what is missing, "" for nothing. until looks again
// every few milliseconds, and less often the longer a look takes. With ten thousand clients the looking itself must not
// be the load.
func (f *Fleet) until(ctx context.Context, what string, left func() string) error {
	said := time.Now()
	for {
		from := time.Now()
		f.mu.Lock()
		missing := left()
		f.mu.Unlock()
		if missing == "" {
			return nil
		}
		if f.Progress != nil && time.Since(said) >= progressEvery {
			said = time.Now()
			f.Progress(what + ": " + missing)
		}
		select {
		case <-time.After(max(pollEvery, 10*time.Since(from))):
		case <-ctx.Done():
			first := f.Faults().FirstError
			if first != "" {
				first = "; the first error of a client was: " + first
			}
			return fmt.Errorf("%s: %s: %w%s", what, missing, context.Cause(ctx), first)
		}
	}
}

// AddCustomers connects n new visitors.
func (f *Fleet) AddCustomers(ctx context.Context, n int) error {
	return f.add(ctx, "customers", n, func(int) (*Client, error) {
		var s struct{ Token string }
		if err := f.post(ctx, f.http, "/api/v1/widget/session", map[string]string{"site": f.site}, &s); err != nil {
			return nil, err
		}
		return f.newClient(func(context.Context) (proto.Hello, error) { return proto.Hello{Token: s.Token, Locale: "en"}, nil }), nil
	}, &f.customers)
}

// AddAgents logs agents in and connects them.
func (f *Fleet) AddAgents(ctx context.Context, accounts []Account) error {
	return f.add(ctx, "agents", len(accounts), func(i int) (*Client, error) {
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
func (f *Fleet) add(ctx context.Context, who string, n int, create func(i int) (*Client, error), list *[]*Client) error {
	made := make(chan error, n)
	places := make(chan struct{}, createPlaces)
	go func() {
		for i := range n {
			places <- struct{}{}
			go func() {
				defer func() { <-places }()
				c, err := create(i)
				if err == nil {
					f.mu.Lock()
					*list = append(*list, c)
					f.mu.Unlock()
					f.connect(c, true)
				}
				made <- err
			}()
		}
	}()
	said := time.Now()
	var first error
	for i := range n {
		if err := <-made; err != nil && first == nil {
			first = fmt.Errorf("making %d %s: %w", n, who, err)
		}
		if f.Progress != nil && time.Since(said) >= progressEvery {
			said = time.Now()
			f.Progress(fmt.Sprintf("made %d of %d %s", i+1, n, who))
		}
	}
	if first != nil {
		return first
	}
	return f.Welcomed(ctx)
}

// connect dials in the background until that succeeds or the fleet is closed. It pauses before each attempt but the
// first of all.
func (f *Fleet) connect(c *Client, first bool) {
	f.redial.Go(func() {
		for ; f.ctx.Err() == nil; first = false {
			if !first {
				f.mu.Lock()
				pause := c.backoff.next(time.Now())
				f.mu.Unlock()
				select {
				case <-time.After(pause):
				case <-f.ctx.Done():
					return
				}
			}
			if f.dial(c, first) == nil {
				return
			}
		}
	})
}

// dial returns an error if another attempt is needed. First connects wait for each other; later ones come when each
// client likes.
func (f *Fleet) dial(c *Client, first bool) error {
	if first {
		select {
		case f.places <- struct{}{}:
			defer func() { <-f.places }()
		case <-f.ctx.Done():
			return f.ctx.Err()
		}
	}
	hello, err := c.hello(f.ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.dials++
	hello.Seen = c.seen()
	f.mu.Unlock()
	var conn *websocket.Conn
	err = f.anywhere(func(base string) error {
		f.mu.Lock()
		c.at = base
		f.mu.Unlock()
		conn, err = f.dialer.Dial(f.ctx, "ws"+strings.TrimPrefix(base, "http")+"/ws", c)
		return err
	})
	if err != nil {
		return err
	}
	_ = c.write(conn, "hello", "hello", "", hello) // if the connection is lost already, HandleClose connects again
	return nil
}

// Live returns how many clients have been welcomed and not lost since.
func (f *Fleet) Live() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live
}

func closedByUs(err error) bool {
	return errors.Is(err, eddy.ErrClosed) || errors.Is(err, context.Canceled)
}
