package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/backend"
)

// Options configure a [Server]. Addr must be given.
type Options struct {
	// Addr is the host:port to listen on. An empty host stands for every address. A host that is not loopback needs a Token.
	Addr string
	// Token is the secret that requests show as "Authorization: Bearer TOKEN", and that the page's login asks for: 16 to
	// 256 printable ASCII characters. "" = requests need none; allowed on loopback only.
	Token string
	// Hosts are names under which browsers may reach the server, beside localhost and IP addresses. Requests with
	// another Host are refused, so a foreign name that resolves to this machine gives a web page no access.
	Hosts []string

	Program, Version string // shown on the page and in the numbers

	// Metrics serves /metrics. nil = 404.
	Metrics http.Handler
	// Level is the level that /loglevel shows and sets. nil = 404.
	Level *slog.LevelVar
	// MaxLag bounds the 99th percentile of a loop's lag, and the time for its answer to a probe. Beyond it the program is
	// not ready. Default 500 ms.
	MaxLag time.Duration

	Poller string       // readiness backend of the server's own loop; "" = the platform's best, $EDDY_POLLER is ignored
	Logger *slog.Logger // default slog.Default()
}

const (
	defaultMaxLag = 500 * time.Millisecond
	minToken      = 16
	maxToken      = 256

	workers      = 6 // of the pool; slow requests (tables of connections, profiles) hold at most 3 of them
	queue        = 64
	maxConns     = 128
	maxPerIP     = 64
	maxBody      = 16 << 10
	idleTimeout  = 30 * time.Second
	maxWatched   = 64 // of each: servers, pools, sets of lanes, checks, counters of requests
	closeTimeout = time.Second
	spare        = 4 // less than the 16 that other servers leave, so the operator gets into a full process
)

// Server is the operator's HTTP server. Any goroutine but a loop may call its methods.
type Server struct {
	o     Options
	guard *guard
	mux   *http.ServeMux
	pages pages
	began time.Time

	samples *sampler
	health  *health
	walks   chan struct{} // one element for each walk through connections under way
	profile chan struct{} // one element while a profile is taken
	ended   chan struct{} // closed when Shutdown begins

	group *eddy.Group
	pool  *executor.Pool
	srv   *eddy.Server

	mu        sync.Mutex
	servers   []watched
	pools     []*executor.Pool
	lanes     []watchedLanes
	traces    []watchedTraces
	overloads []watchedOverload
	requests  []func() uint64
	cancel    context.CancelFunc // ends the goroutines; nil before Listen
	running   sync.WaitGroup     // the goroutines of samples and health
	closed    bool
}

// watched is a server added with Watch.
type watched struct {
	name string
	srv  *eddy.Server
}

// New returns a server, which Listen starts. The error names the option that is wrong.
func New(o Options) (*Server, error) {
	if o.MaxLag < 0 {
		return nil, fmt.Errorf("admin: Options.MaxLag is %v, below 0", o.MaxLag)
	}
	if o.MaxLag == 0 {
		o.MaxLag = defaultMaxLag
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	g, err := newGuard(o)
	if err != nil {
		return nil, err
	}
	s := &Server{
		o: o, guard: g, mux: http.NewServeMux(), began: time.Now(),
		walks: make(chan struct{}, 2), profile: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	s.samples, s.health = newSampler(s), newHealth(s)
	s.routes()
	return s, nil
}

func (s *Server) routes() {
	s.mux.HandleFunc("GET /healthz", s.healthz)
	s.mux.HandleFunc("GET /readyz", s.readyz)
	s.mux.HandleFunc("GET /stats.json", s.stats)
	s.mux.HandleFunc("GET /connections", s.connections)
	s.mux.HandleFunc("POST /connections/close", s.closeConnection)
	s.mux.HandleFunc("GET /traces", s.listTraces)
	s.mux.HandleFunc("GET /traces/{recorder}/{number}", s.oneTrace)
	s.mux.HandleFunc("GET /traces/{recorder}/{number}/page", s.tracePage)
	s.mux.HandleFunc("GET /debug/goroutines", s.goroutines)
	s.mux.HandleFunc("GET /debug/pprof/{$}", s.profiles)
	s.mux.HandleFunc("GET /debug/pprof/{name}", s.takeProfile)
	s.mux.HandleFunc("GET /login", s.loginPage)
	s.mux.HandleFunc("POST /login", s.login)
	s.mux.HandleFunc("POST /logout", s.logout)
	if s.o.Metrics != nil {
		s.Handle(metricsRoute, s.o.Metrics)
	}
	if s.o.Level != nil {
		s.mux.HandleFunc("GET /loglevel", s.logLevel)
		s.mux.HandleFunc("PUT /loglevel", s.setLogLevel)
	}
	s.pages.add(s)
}

const metricsRoute = "GET /metrics"

// Handle adds a route, such as "GET /metrics", behind the same rules as the others. Call Handle before Listen. A pattern
// that conflicts with another route panics.
func (s *Server) Handle(pattern string, h http.Handler) {
	s.mux.Handle(pattern, h)
	s.pages.metrics = s.pages.metrics || pattern == metricsRoute
}

// Handler returns the handler that Listen serves, with all rules. Use it to serve the routes on an HTTP server of your own.
func (s *Server) Handler() http.Handler { return s.guard.around(s.mux) }

// Watch adds a server under a name of its own. The server may start to listen later.
func (s *Server) Watch(name string, srv *eddy.Server) error {
	if name == "" || srv == nil {
		return errors.New("admin: Watch needs a name and a server")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := admits(s.servers, "server", name, func(w watched) string { return w.name }); err != nil {
		return err
	}
	s.servers = append(s.servers, watched{name, srv})
	return nil
}

// admits returns an error if the list is full or has an element with this name.
func admits[T any](list []T, kind, name string, nameOf func(T) string) error {
	switch {
	case slices.ContainsFunc(list, func(w T) bool { return nameOf(w) == name }):
		return fmt.Errorf("admin: there is a %s named %q already", kind, name)
	case len(list) == maxWatched:
		return fmt.Errorf("admin: %s %q is one too many: there are %d already, limit %d", kind, name, maxWatched, maxWatched)
	}
	return nil
}

// WatchPools adds pools. A pool that has no room makes the program not ready.
func (s *Server) WatchPools(pools ...*executor.Pool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range pools {
		switch {
		case p == nil:
			return errors.New("admin: WatchPools was given a nil pool")
		case slices.Contains(s.pools, p):
			continue
		case len(s.pools) == maxWatched:
			return fmt.Errorf("admin: %d pools are watched already, limit %d", maxWatched, maxWatched)
		}
		s.pools = append(s.pools, p)
	}
	return nil
}

// CountRequests adds a counter of requests. total returns the count and must not block. Without any counter, the messages of
// the servers' loops count as requests.
func (s *Server) CountRequests(total func() uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == maxWatched {
		return fmt.Errorf("admin: %d counters of requests are known already, limit %d", maxWatched, maxWatched)
	}
	s.requests = append(s.requests, total)
	return nil
}

// watching returns copies of the lists of servers, pools and counters.
func (s *Server) watching() (servers []watched, pools []*executor.Pool, requests []func() uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.servers), slices.Clone(s.pools), slices.Clone(s.requests)
}

var errServed = errors.New("admin: a Server listens once")

// Listen starts to serve. Call Listen once.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.srv != nil {
		return errServed
	}
	pool, err := executor.NewFixed(executor.Options{Name: "admin", Workers: workers, Queue: queue, Logger: s.o.Logger})
	if err != nil {
		return err
	}
	pages := http1.NewHandler(s.Handler(), pool, http1.Options{MaxBody: maxBody, IdleTimeout: idleTimeout})
	group := &eddy.Group{Name: "admin", Loops: 1, Poller: cmp.Or(s.o.Poller, backend.Default()), Logger: s.o.Logger}
	srv := &eddy.Server{
		Group: group, Topology: eddy.SingleReactor, MaxConns: maxConns, Logger: s.o.Logger, Init: pages.Init,
		Admission: eddy.Admission{MaxPerIP: maxPerIP, SpareDescriptors: spare, OnLimit: eddy.DecisionBusy, Busy: pages.Refuse},
	}
	if err := srv.Listen("tcp", s.o.Addr); err != nil {
		pool.Close()
		return errors.Join(err, group.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.group, s.pool, s.srv, s.cancel = group, pool, srv, cancel
	s.running.Go(func() { s.samples.run(ctx) })
	s.running.Go(func() { s.health.run(ctx) })
	return nil
}

// Addr returns the address that the server listens on, nil before Listen.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return nil
	}
	return s.srv.Addr()
}

// Shutdown ends the server. Responses under way are finished; those not done when ctx ends are cut, and checks that ignore
// their context are not waited for. A second call does nothing.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	again, began := s.closed, s.srv != nil
	s.closed = true
	s.mu.Unlock()
	if again || !began {
		return nil
	}
	s.cancel()
	close(s.ended)
	_, err := s.srv.Shutdown(ctx)
	s.pool.Close()
	if _, late := s.pool.Shutdown(ctx); err == nil {
		err = late
	}
	s.running.Wait()
	return errors.Join(err, s.group.Close())
}

// Close calls Shutdown with a limit of one second.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return s.Shutdown(ctx)
}
