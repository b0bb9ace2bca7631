package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
	"github.com/go-eddy/eddy/rpc/internal/retry"
)

const (
	dialTimeout = 3 * time.Second
	// refresh is after which time a node is read although no change was told.
	refresh = 30 * time.Second
)

// session is the connection to ZooKeeper. The library connects anew, and begins a new session when the old one has expired. A session without a
// connection for as long as it lasts is over, and another one takes its place: a server that has lost its memory refuses clients that have seen more
// than it has. Any goroutine may call its methods.
type session struct {
	conn   *zk.Conn
	events <-chan zk.Event // closed when the library's goroutines have ended
	dials  *dials
	acl    []zk.ACL
	calls  sync.WaitGroup

	patience time.Duration // without a connection, after which it is over
	over     chan struct{} // closed with that

	mu      sync.Mutex
	closed  bool
	up      bool
	turned  chan struct{}              // closed when up changes, then another one
	expiry  *time.Timer                // ends the session; runs while it is not up
	watches map[string]<-chan zk.Event // by kind and path, those that have not fired
}

func newSession(o Options, log *slog.Logger) *session {
	s := &session{acl: zk.WorldACL(zk.PermAll), patience: o.Session, over: make(chan struct{}), turned: make(chan struct{}), watches: make(map[string]<-chan zk.Event)}
	s.expiry = time.AfterFunc(s.patience, sync.OnceFunc(s.giveUp))
	s.dials = newDials(o.Servers, o.TLS)
	if o.Username != "" {
		s.acl = zk.AuthACL(zk.PermAll)
	}
	var err error
	s.conn, s.events, err = zk.Connect(o.Servers, o.Session, zk.WithDialer(s.dials.dial), zk.WithHostProvider(s.dials), zk.WithLogger(logger{log}),
		zk.WithLogInfo(false), zk.WithMaxBufferSize(maxAnswer), zk.WithEventCallback(s.event))
	if err != nil {
		panic(err) // It has servers, and the provider's Init does not fail.
	}
	if o.Username != "" {
		s.calls.Go(func() { s.login(o.Username + ":" + o.Password) })
	}
	return s
}

// login sends the credentials once; the library sends them again with each later connection.
func (s *session) login(credentials string) {
	for s.dials.ctx.Err() == nil && s.conn.AddAuth("digest", []byte(credentials)) != nil {
		_ = keep.Pause(s.dials.ctx, time.Second)
	}
}

// event hears of everything, on the library's goroutine.
func (s *session) event(e zk.Event) {
	if e.Type != zk.EventSession || e.State != zk.StateDisconnected && e.State != zk.StateHasSession {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if up := e.State == zk.StateHasSession; up != s.up {
		s.up = up
		close(s.turned)
		s.turned = make(chan struct{})
		if s.expiry.Stop(); !up {
			s.expiry.Reset(s.patience)
		}
	}
}

// giveUp notes that the session is over, and wakes those who wait for it.
func (s *session) giveUp() {
	close(s.over)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.turned)
	s.turned = make(chan struct{})
}

// isOver reports whether another session must take its place.
func (s *session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// lost returns what is closed when the connection is lost, nil if there is none.
func (s *session) lost() <-chan struct{} { return s.turnedFrom(true) }

// found returns what is closed when there is a connection again, nil if there is one.
func (s *session) found() <-chan struct{} { return s.turnedFrom(false) }

func (s *session) turnedFrom(up bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up != up {
		return nil
	}
	return s.turned
}

// close ends the session and waits for everything that was begun.
func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	s.expiry.Stop()
	s.mu.Unlock()
	s.conn.Close()
	s.dials.close()
	for range s.events {
	}
	s.calls.Wait()
}

// call is f's result or the error of ctx. f goes on until it is answered or the connection ends; close waits for it.
func call[T any](ctx context.Context, s *session, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan result, 1)
	if !s.begin(func() {
		v, err := f()
		done <- result{v, err}
	}) {
		return none, s.explain(zk.ErrClosing)
	}
	select {
	case r := <-done:
		return r.value, s.explain(r.err)
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// begin runs f on a goroutine that close waits for, and reports whether it does.
func (s *session) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.calls.Go(f)
	}
	return !s.closed
}

// explain adds to an error of the library why there is no connection.
func (s *session) explain(err error) error {
	if err == nil || !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrClosing) {
		return err
	}
	if why := s.dials.failure(); why != nil {
		return fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// children returns the names below a node, which is made if it is missing, and what is told when they change.
func (s *session) children(ctx context.Context, path string) ([]string, <-chan zk.Event, error) {
	for {
		names, changed, err := watched(ctx, s, "children "+path,
			func() ([]string, error) { names, _, err := s.conn.Children(path); return names, err },
			func() ([]string, <-chan zk.Event, error) {
				names, _, changed, err := s.conn.ChildrenW(path)
				return names, changed, err
			})
		if !errors.Is(err, zk.ErrNoNode) {
			return names, changed, err
		}
		switch err := s.ensure(ctx, path); {
		case errors.Is(err, zk.ErrNoAuth):
			return nil, nil, nil // await looks again
		case err != nil:
			return nil, nil, err
		}
	}
}

// watched reads a node, with a new watch unless one is pending: the library keeps each until it fires.
func watched[T any](ctx context.Context, s *session, key string, read func() (T, error), watch func() (T, <-chan zk.Event, error)) (T, <-chan zk.Event, error) {
	s.mu.Lock()
	changed := s.watches[key]
	s.mu.Unlock()
	if changed != nil {
		select {
		case <-changed:
		default:
			v, err := call(ctx, s, read)
			return v, changed, err
		}
	}
	v, err := call(ctx, s, func() (v T, err error) {
		if v, changed, err = watch(); err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.watches[key] = changed
		}
		return v, err
	})
	if err != nil {
		return v, nil, err // without changed, which a call that goes on may write
	}
	return v, changed, nil
}

// ensure makes a node and those above it.
func (s *session) ensure(ctx context.Context, path string) error {
	for end := 1; end < len(path); {
		if next := strings.IndexByte(path[end+1:], '/'); next < 0 {
			end = len(path)
		} else {
			end += 1 + next
		}
		_, err := call(ctx, s, func() (string, error) { return s.conn.Create(path[:end], nil, zk.FlagPersistent, s.acl) })
		if err != nil && !errors.Is(err, zk.ErrNodeExists) && (end == len(path) || !errors.Is(err, zk.ErrNoAuth)) {
			return fmt.Errorf("zookeeper: making %s: %w", path[:end], err)
		}
	}
	return nil
}

// await returns nil when changed or lost is told, and after a while in any case: nothing then depends on the registry's word alone. The error is that of ctx.
func await(ctx context.Context, changed <-chan zk.Event, lost <-chan struct{}) error {
	t := time.NewTimer(refresh - time.Duration(rand.Int64N(int64(refresh/5))))
	defer t.Stop()
	select {
	case <-changed:
	case <-lost:
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// logger writes what the library says, which are failures to connect.
type logger struct{ log *slog.Logger }

// Printf implements zk.Logger.
func (l logger) Printf(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }

// dials chooses the servers in turn and connects to them, with growing pauses while none answers. The library's goroutine uses it, and close.
type dials struct {
	ctx     context.Context // ends with close
	end     context.CancelFunc
	servers []string
	tls     *tls.Config
	pauses  retry.Schedule
	at      int
	failed  int // attempts since the last session

	mu   sync.Mutex
	conn net.Conn
	err  error // of the last attempt
}

func newDials(servers []string, secure *tls.Config) *dials {
	d := &dials{servers: servers, tls: secure, at: rand.IntN(len(servers))}
	d.ctx, d.end = context.WithCancel(context.Background())
	d.pauses = retry.Schedule{Min: 50 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5, Random: rand.Float64}
	return d
}

// Init implements zk.HostProvider.
func (d *dials) Init([]string) error { return nil }

// Len implements zk.HostProvider.
func (d *dials) Len() int { return len(d.servers) }

// Next implements zk.HostProvider. Behind every round the library ends the requests that wait.
func (d *dials) Next() (server string, round bool) {
	d.at = (d.at + 1) % len(d.servers)
	d.failed++
	return d.servers[d.at], d.failed > len(d.servers)
}

// Connected implements zk.HostProvider.
func (d *dials) Connected() {
	d.failed = 0
	d.pauses.Succeeded()
	d.note(nil, nil)
}

// dial is the library's zk.Dialer.
func (d *dials) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	if d.failed > 1 {
		if err := keep.Pause(d.ctx, d.pauses.Failed()); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(d.ctx, dialTimeout)
	defer cancel()
	var c net.Conn
	var err error
	if d.tls != nil {
		c, err = (&tls.Dialer{Config: d.tls}).DialContext(ctx, network, addr)
	} else {
		c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	if err != nil {
		d.note(nil, err)
		return nil, err
	}
	d.note(c, nil)
	if d.ctx.Err() != nil {
		_ = c.Close()
	}
	return newGuard(c, func(err error) { d.note(nil, fmt.Errorf("%s: %w", addr, err)) }), nil
}

// note keeps the newest connection, for close, and what became of the last attempt.
func (d *dials) note(c net.Conn, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c != nil {
		d.conn = c
		return
	}
	d.err = err
}

func (d *dials) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// close ends the connection and all attempts.
func (d *dials) close() {
	d.end()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close()
	}
}
