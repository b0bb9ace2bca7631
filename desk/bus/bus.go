package bus

import (
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/go-eddy/eddy/internal/sample"
)

const (
	dialTimeout  = 2 * time.Second
	writeTimeout = 2 * time.Second // after that a connection that takes nothing is given up
	pingEvery    = 2 * time.Second
	pingsOut     = 2 // pings without an answer; after the next one the connection is given up
	again        = 500 * time.Millisecond
	againJitter  = 500 * time.Millisecond
	maxWaiting   = 4096    // messages that wait to be taken
	maxBytes     = 8 << 20 // of these
	logEvery     = time.Minute
)

// Options configure a Bus. URL, Room and Key are required.
type Options struct {
	URL    string // see CheckURL
	Room   string // servers with another one hear nothing: the id of the data
	Key    []byte // 32 bytes, the same at all servers: what is sent is sealed with it
	Name   string // of this server, for those who look at NATS
	Logger *slog.Logger
}

// Bus is a connection to NATS that comes back by itself. Any goroutine may call its methods.
type Bus struct {
	o      Options
	conn   *nats.Conn
	seal   cipher.AEAD
	prefix string
	ended  chan struct{} // closed when the connection will not come back
	left   chan struct{} // closed when take is called no more

	up       atomic.Bool
	sub      atomic.Pointer[nats.Subscription]
	sent     atomic.Uint64
	sentOf   atomic.Uint64 // bytes
	failed   atomic.Uint64
	heard    atomic.Uint64
	heardOf  atomic.Uint64 // bytes
	refused  atomic.Uint64
	connects atomic.Uint64
	failures sample.Seldom // of the log
	strange  sample.Seldom
}

// Stats is a snapshot of what a Bus has counted.
type Stats struct {
	Up       bool
	Connects uint64 // connections made
	Sent     uint64
	SentOf   uint64 // bytes of these, sealed
	Failed   uint64 // messages that NATS did not take
	Heard    uint64
	HeardOf  uint64 // bytes of these, sealed
	Refused  uint64 // messages that nobody with the key has sealed
	Dropped  uint64 // messages that came faster than they were taken
}

// Open begins to connect, and does not wait for that. It fails only for an address, a file or a key that cannot work.
func Open(o Options) (*Bus, error) {
	servers, options, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	b := &Bus{o: o, prefix: "eddy." + o.Room + ".", ended: make(chan struct{}), left: make(chan struct{})}
	if b.seal, err = chacha20poly1305.NewX(o.Key); err != nil {
		return nil, fmt.Errorf("the key of the bus: %w", err)
	}
	options = append(options,
		nats.Name("eddy desk "+o.Name), nats.NoEcho(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(again), nats.ReconnectJitter(againJitter, againJitter),
		nats.ReconnectBufSize(-1), // what could not be sent is old by the time of the next connection
		nats.Timeout(dialTimeout), nats.FlusherTimeout(writeTimeout), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsOut),
		nats.ConnectHandler(b.connected), nats.ReconnectHandler(b.connected), nats.DisconnectErrHandler(b.lost), nats.ReconnectErrHandler(b.lost),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { b.strangely(err) }),
		nats.ClosedHandler(func(*nats.Conn) { b.up.Store(false); close(b.ended) }),
	)
	if b.conn, err = nats.Connect(strings.Join(servers, ","), options...); err != nil {
		return nil, fmt.Errorf("the bus at %s: %w", Place(o.URL), err)
	}
	return b, nil
}

func (b *Bus) connected(*nats.Conn) {
	b.connects.Add(1)
	b.up.Store(true)
	b.o.Logger.Info("desk: connected to the bus", "bus", Place(b.o.URL))
}

// lost runs when a connection has ended, and when none could be made.
func (b *Bus) lost(_ *nats.Conn, err error) {
	b.up.Store(false)
	if err == nil { // closed by Close
		return
	}
	if ok, held := b.failures.Allow(logEvery); ok {
		b.o.Logger.Warn("desk: no connection to the bus; servers hear each other through the database", "bus", Place(b.o.URL), "err", err, "held_back", held)
	}
}

// strangely tells of what goes wrong while the connection stands.
func (b *Bus) strangely(err error) {
	if ok, held := b.strange.Allow(logEvery); ok {
		b.o.Logger.Warn("desk: the bus", "bus", Place(b.o.URL), "err", err, "held_back", held)
	}
}

// Join has take called with each message that another server sends, one at a time. take must not block, and may keep
// data. Call it once.
func (b *Bus) Join(take func(topic string, data []byte)) error {
	sub, err := b.conn.Subscribe(b.prefix+">", func(m *nats.Msg) {
		topic := strings.TrimPrefix(m.Subject, b.prefix)
		data, err := b.open(topic, m.Data)
		if err != nil {
			b.refused.Add(1)
			b.strangely(fmt.Errorf("a message to %q was not sealed by a server of this Desk", topic))
			return
		}
		b.heard.Add(1)
		b.heardOf.Add(uint64(len(m.Data)))
		take(topic, data)
	})
	if err != nil {
		return err
	}
	sub.SetClosedHandler(func(string) { close(b.left) })
	b.sub.Store(sub)
	return sub.SetPendingLimits(maxWaiting, maxBytes)
}

// ErrDown is returned by Send while there is no connection.
var ErrDown = errors.New("bus: there is no connection")

var errShort = errors.New("bus: the message is too short")

// open returns what a message says. The topic is sealed, too.
func (b *Bus) open(topic string, sealed []byte) ([]byte, error) {
	n := b.seal.NonceSize()
	if len(sealed) < n {
		return nil, errShort
	}
	return b.seal.Open(nil, sealed[:n], sealed[n:], []byte(topic))
}

// Send sends a message to all servers that have joined, but this one. topic consists of words of letters, digits and
// hyphens, separated by dots. Send blocks for two seconds at most, if NATS takes nothing; fails without a connection, and
// for a message that is larger than NATS takes.
func (b *Bus) Send(topic string, data []byte) error {
	if !b.Up() {
		b.failed.Add(1)
		return ErrDown
	}
	nonce := make([]byte, b.seal.NonceSize(), b.seal.NonceSize()+len(data)+b.seal.Overhead())
	_, _ = rand.Read(nonce) // never fails
	sealed := b.seal.Seal(nonce, nonce, data, []byte(topic))
	if err := b.conn.Publish(b.prefix+topic, sealed); err != nil {
		b.failed.Add(1)
		return err
	}
	b.sent.Add(1)
	b.sentOf.Add(uint64(len(sealed)))
	return nil
}

// Up reports whether there is a connection, for all that is known. It never blocks.
func (b *Bus) Up() bool { return b.up.Load() }

// Stats returns the counters.
func (b *Bus) Stats() Stats {
	s := Stats{Up: b.Up(), Connects: b.connects.Load(), Sent: b.sent.Load(), SentOf: b.sentOf.Load(), Failed: b.failed.Load(), Heard: b.heard.Load(), HeardOf: b.heardOf.Load(), Refused: b.refused.Load()}
	if sub := b.sub.Load(); sub != nil {
		n, _ := sub.Dropped() // fails after Close
		s.Dropped = uint64(max(n, 0))
	}
	return s
}

// Close ends the connection. take is not called any more when it returns.
func (b *Bus) Close() {
	b.conn.Close()
	<-b.ended
	if b.sub.Load() != nil {
		<-b.left
	}
}
