package rpc

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/responder"
	"github.com/go-eddy/eddy/trace"
)

// DefaultInFlight is PortOptions.InFlight if the options do not say: more than any pool takes by default.
const DefaultInFlight = 16384

// PortOptions say how one address of a server serves. Addr is required.
type PortOptions struct {
	Name string // for OnPorts, Addr, logs and statistics; "" is "port" and its index in ServerOptions.Ports
	Addr string // host and port; the ports 0 and -1 let the system choose one
	// FirstPort has Listen take the first free port from here on, if Addr has the port -1: of a hundred at most. 0 = the system chooses.
	FirstPort int

	// Protocols are those that the port speaks; a connection shows by its first bytes which one it is. nil = all.
	Protocols []Protocol
	// Offers are the names as which a registry has the port's protocols, see ServerOptions.Discovery; a port with dubbo.Front says "dubbo". nil = frame and
	// tri, those that it speaks; http if it speaks none.
	Offers []string
	// Origins are those of the pages in browsers, such as https://example.com, that may call from elsewhere by ProtocolWeb;
	// "*" is all. They may not send cookies. nil = only pages of the port's own origin.
	Origins []string

	Dispatcher Dispatcher  // where requests and events run
	Pool       PoolOptions // of the port's shared pool and, with PerService, of the services' own pools

	// Ordering of requests on one connection, by the frame protocol; calls by gRPC are independent. responder.Serial makes
	// each connection a serial stream: one call at a time, in order, each on the pool of its service.
	Ordering responder.Ordering
	InFlight int // calls of one connection that were not answered or still run; at the bound its reads pause. 0 = DefaultInFlight

	// TrustClass lets calls say in the metadata limit.Field how much they matter. Set it only where every client is trusted, because anybody else would call himself
	// critical. Without it the field is like any other metadata.
	TrustClass bool

	MaxPayload  int           // of requests and responses; 0 = frame.DefaultMaxPayload
	MaxResponse int           // of responses by gRPC and ProtocolWeb; 0 = MaxPayload
	ReadTimeout time.Duration // from the first byte of a frame to its last; 0 = frame.DefaultReadTimeout, negative = none
	IdleTimeout time.Duration // of connections; 0 = frame.DefaultIdleTimeout, negative = none

	MaxAge      time.Duration // of connections by HTTP/2, a tenth more or less; then their clients connect anew. 0 = no limit
	MaxAgeGrace time.Duration // that calls in flight have after MaxAge; 0 = no limit

	Accepts int         // open connections at most; 0 = no limit
	Loops   int         // number of the port's own; 0 = GOMAXPROCS
	Group   *eddy.Group // loops shared with others; nil = own ones

	// Trace samples and records the port's requests. nil = none.
	Trace *trace.Recorder
	// TrustTrace takes the trace and the baggage that clients send with a request: in the metadata or the header fields
	// traceparent, tracestate and baggage. Without it they are ignored and counted, because any client may decide by them
	// what is sampled. Set it for ports that only your own services reach.
	TrustTrace bool

	// Front adds handlers in front of the protocol's, such as TLS. Front runs on the loop. nil adds none.
	Front func(p *eddy.Pipeline) error
	// Tune sets what else an eddy.Server has: budgets, watermarks, admission. Tune is called once, before the port
	// listens. nil sets nothing.
	Tune func(srv *eddy.Server)

	// Listener is told of events on the port's connections, where Dispatcher says; its shared pool is the port's. A
	// ReceivedListener serves the operations 16 to 255. Of calls by gRPC it hears nothing but their connections. nil = none.
	Listener       Listener
	ConnectQueue   int // under DispatchConnection, connects that may wait, see Listener; 0 = DefaultConnectQueue
	ConnectWarning int // under DispatchConnection, waiting connects and disconnects above which there is a warning; 0 = DefaultConnectWarning
}

// Protocol is a protocol that a port speaks.
type Protocol uint8

// The protocols.
const (
	ProtocolFrame Protocol = iota // the frame protocol
	ProtocolGRPC                  // gRPC by HTTP/2; a client by TLS needs a Front whose ALPN has h2
	ProtocolWeb                   // Connect and gRPC-Web by HTTP/1.1 and HTTP/2, for pages in browsers
	protocols
)

var protocolNames = [protocols]string{"frame", "grpc", "web"}

// String returns the name that configurations use.
func (p Protocol) String() string { return nameOf(p, protocolNames[:], "protocol") }

// ParseProtocol returns the protocol of that name: frame, grpc or web.
func ParseProtocol(name string) (Protocol, error) {
	return parseName[Protocol](name, protocolNames[:], "protocol")
}

// speaks reports whether the port speaks o.
func (p *port) speaks(o Protocol) bool {
	return len(p.o.Protocols) == 0 || slices.Contains(p.o.Protocols, o)
}

// port is one address of a server.
type port struct {
	o      PortOptions
	srv    *Server
	addr   string
	pool   *executor.Pool // shared
	table  atomic.Pointer[map[string]map[string]*target]
	frames *frame.Server
	grpc   *grpcPort // nil if the port speaks nothing by HTTP
	events *notifier // nil without a Listener
	engine *eddy.Server
}

// newPort returns a port that does not listen yet. The server ends the port's pool, also after an error.
func (s *Server) newPort(i int, o PortOptions) (*port, error) {
	if o.Name == "" {
		o.Name = fmt.Sprintf("port%d", i)
	}
	p := &port{o: o, srv: s}
	if err := p.build(); err != nil {
		return nil, fmt.Errorf("rpc: port %q: %w", o.Name, err)
	}
	return p, nil
}

func (p *port) build() error {
	if err := p.check(); err != nil {
		return err
	}
	p.table.Store(&map[string]map[string]*target{})
	var err error
	if p.pool, err = p.srv.newPool("port "+p.o.Name, p.o.Pool); err != nil {
		return err
	}
	o := frame.Options{
		Route:       p.route,
		Class:       p.class,
		Done:        done,
		Value:       p.callValue,
		Append:      p.srv.handle,
		Timeout:     timeout,
		Ordering:    p.o.Ordering,
		InFlight:    cmp.Or(p.o.InFlight, DefaultInFlight),
		MaxPayload:  p.o.MaxPayload,
		RetryAfter:  p.srv.o.RetryAfter,
		DrainGrace:  p.srv.o.DrainGrace,
		ReadTimeout: p.o.ReadTimeout,
		IdleTimeout: p.o.IdleTimeout,
	}
	p.traced(&o)
	if p.frames, err = frame.NewServer(o); err != nil {
		return err
	}
	if p.speaks(ProtocolGRPC) || p.speaks(ProtocolWeb) {
		p.buildGRPC()
	}
	if err := p.buildEvents(); err != nil {
		return err
	}
	p.engine = &eddy.Server{
		CloseOnEOF: true, // the calls of a client that is gone end
		Loops:      p.o.Loops, Group: p.o.Group, MaxConns: p.o.Accepts, Admission: p.admission(), Pools: p.events.pools(), Logger: p.srv.o.Logger,
	}
	p.frames.Configure(p.engine)
	p.engine.Init = p.init
	if p.o.Tune != nil {
		p.o.Tune(p.engine)
	}
	return nil
}

// buildEvents makes the notifier of the Listener. The error names a PortOptions field.
func (p *port) buildEvents() error {
	var err error
	p.events, err = newNotifier(eventOptions{
		name: p.o.Name, side: ServerSide, dispatcher: p.o.Dispatcher, listener: p.o.Listener, shared: p.pool,
		connectQueue: p.o.ConnectQueue, connectWarning: p.o.ConnectWarning,
		retryAfter: p.srv.o.RetryAfter, maxPayload: p.o.MaxPayload, logger: p.srv.o.Logger,
	})
	if err != nil {
		return fmt.Errorf("PortOptions.%s", strings.TrimPrefix(err.Error(), "rpc: "))
	}
	return nil
}

// admission has clients beyond a limit told BUSY, by the loop that accepts, before there is anything to dispatch. With
// Front they are not told, because they may expect something else of the port, such as a handshake.
func (p *port) admission() eddy.Admission {
	a := eddy.Admission{OnLimit: eddy.DecisionBusy, Busy: frame.Refuse, RetryAfter: p.srv.o.RetryAfter}
	switch {
	case p.o.Front != nil:
		return eddy.Admission{}
	case !p.speaks(ProtocolFrame):
		a.Busy = p.grpc.http.Refuse
	}
	return a
}

func (p *port) check() error {
	host, number, err := net.SplitHostPort(p.o.Addr)
	switch {
	case p.o.Addr == "":
		return errors.New("PortOptions.Addr is empty")
	case err != nil:
		return fmt.Errorf("PortOptions.Addr: %w", err)
	case p.o.FirstPort < 0 || p.o.FirstPort > maxPort || p.o.FirstPort > 0 && number != "-1":
		return fmt.Errorf("PortOptions.FirstPort is %d: it must be from 0 to %d, and the port of Addr -1", p.o.FirstPort, maxPort)
	case p.o.Loops < 0:
		return fmt.Errorf("PortOptions.Loops is %d: it must not be negative", p.o.Loops)
	case slices.ContainsFunc(p.o.Protocols, func(o Protocol) bool { return o >= protocols }):
		return fmt.Errorf("PortOptions.Protocols is %v: they must be of %s", p.o.Protocols, strings.Join(protocolNames[:], ", "))
	case slices.ContainsFunc(p.o.Offers, func(o string) bool { return o == "" || strings.ContainsAny(o, " :/?&#") }):
		return fmt.Errorf("PortOptions.Offers is %q: they must be names such as frame", p.o.Offers)
	case p.o.MaxResponse < 0:
		return fmt.Errorf("PortOptions.MaxResponse is %d: it must not be negative", p.o.MaxResponse)
	case p.o.Accepts < 0:
		return fmt.Errorf("PortOptions.Accepts is %d: it must not be negative", p.o.Accepts)
	}
	if number == "-1" {
		number = "0"
	}
	p.addr = net.JoinHostPort(host, number)
	return checkOrigins(p.o.Origins)
}

const (
	maxPort   = 65535
	portTries = 100 // from PortOptions.FirstPort on
)

// listen binds the port's address, or the first free one from PortOptions.FirstPort on.
func (p *port) listen() error {
	if p.o.FirstPort == 0 {
		return p.engine.Listen("tcp", p.addr)
	}
	host, _, _ := net.SplitHostPort(p.addr)
	last := min(p.o.FirstPort+portTries-1, maxPort)
	for n := p.o.FirstPort; n <= last; n++ {
		p.addr = net.JoinHostPort(host, strconv.Itoa(n))
		if err := p.engine.Listen("tcp", p.addr); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return fmt.Errorf("no port from %d to %d is free", p.o.FirstPort, last)
}

// init builds the pipeline of a connection.
func (p *port) init(l *eddy.Pipeline) error {
	if p.o.Front != nil {
		if err := p.o.Front(l); err != nil {
			return err
		}
	}
	frames := p.speaks(ProtocolFrame)
	if !frames && p.grpc.web == nil {
		if err := p.grpc.http.Init(l); err != nil {
			return err
		}
		return p.events.add(l, l.Names()[len(l.Names())-1])
	}
	if p.grpc != nil {
		if err := l.Add(chooserName, chooser{p}); err != nil {
			return err
		}
	}
	if !frames {
		return p.events.add(l, chooserName)
	}
	if err := p.frames.Init(l); err != nil {
		return err
	}
	return p.events.add(l, "frames")
}

// place returns where requests that prefer pool run; nil is the loop.
func (p *port) place(pool *executor.Pool) *executor.Pool {
	if p.o.Dispatcher.Place(EventRequest, ServerSide) == PlaceLoop {
		return nil
	}
	return pool
}

// export adds a service's methods to the port, which is the service's at, in a copy of the table that the loops read.
func (p *port) export(r *registration, at int) {
	table := make(map[string]map[string]*target)
	for key, methods := range *p.table.Load() {
		table[key] = methods
	}
	methods := make(map[string]*target, len(r.svc.methods))
	for i := range r.svc.methods {
		m := &r.svc.methods[i]
		t := &target{reg: r.of(m.name), method: m}
		if t.pool = t.reg.pools[at]; !r.builtIn {
			t.pool = p.place(t.pool)
		}
		methods[m.name] = t
	}
	table[r.svc.key.String()] = methods
	p.table.Store(&table)
	if p.grpc != nil {
		p.grpc.export(r, methods)
	}
}
