package hub

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/go-eddy/eddy/desk/geo"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/trace"
)

// ErrSlow is returned by Conn.Send when the peer does not read what it is sent.
var ErrSlow = errors.New("hub: the connection does not keep up")

// Conn is the transport under a session. Any goroutine may call its methods, and none blocks. They may call
// Session.Closed, but not Session.Receive, before they return.
type Conn interface {
	// Send queues one message. The bytes are shared between connections and must not be changed. Send returns ErrSlow
	// when the connection's own limit is reached, and another error when the connection is closed.
	Send(frame []byte) error
	// Queued returns the number of bytes not yet handed to the kernel.
	Queued() int
	// Close sends a close frame behind what is queued and closes. Only the first call counts.
	Close(code int, reason string)
}

// Peer is what the transport knows about a client before its first message.
type Peer struct {
	Browser bool        // the client sent an Origin, so its cookies count before its ticket
	Login   store.Token // hash of the login cookie, zero if there was none
	Origin  string      // of a page that is not the server's own, in lower case; its site must allow it
	Network string      // what limits per address count, "" = not limited
	Agent   string      // kind and system of the browser, "" = unknown
	IP      string      // as much of its address as may be stored, "" = nothing
	Place   geo.Place   // of its address, as far as it is known; the setting of the site says what is kept

	Trace trace.Parent // that its commands continue, because its handshake was trusted to say so; zero = none
}

type phase uint8

const (
	connected phase = iota // waits for hello
	greeting               // hello is being looked at
	resuming               // subscribed; live events are buffered
	live
	closed
)

// identity says for whom a session speaks. hello sets it once.
type identity struct {
	actor    store.Actor
	capacity int         // of an agent
	noChats  bool        // of an agent
	role     perm.Role   // of an agent
	masked   bool        // an agent that may not see private data
	site     string      // of a customer
	login    store.Token // hash of the proof: an agent's login, a customer's token
	locale   string
	greeter  greeter // of a customer's next conversation
}

// Session is one connection. Only its loop may call Receive; any goroutine may call everything else.
type Session struct {
	hub  *Hub
	conn Conn
	peer Peer
	id   string

	gone  atomic.Bool // the transport is closed; read without mu
	hello *time.Timer

	ident atomic.Pointer[identity]    // nil until hello was accepted
	facts atomic.Pointer[store.Facts] // of a customer's visit

	used atomic.Int64 // when somebody worked with it last, Unix milliseconds; of an agent's session

	watched map[string]struct{}        // conversations, in sessions.watchers, too; Hub.mu guards it
	expiry  atomic.Pointer[time.Timer] // of an agent's login

	mu       sync.Mutex
	phase    phase
	buffer   []pending            // events that arrived while resuming
	buffered int                  // bytes in it
	audited  map[string]time.Time // what of others this session has read, and when that was logged

	// Used by Receive only.
	messages *rate.Limiter
	commands *rate.Limiter
	denials  *rate.Limiter // lines in the audit log about refusals
	visits   *rate.Limiter // of a customer that goes from page to page
	strikes  int
	refusals int
}

// pending is one event on its way to one session; s is 0 for events without a number.
type pending struct {
	conv  string
	s     uint64
	frame []byte
}

// Connect starts a session on a new connection. The client has Limits.HelloTimeout to say hello. The transport calls
// Receive for each message and Closed once at the end.
func (h *Hub) Connect(c Conn, p Peer) *Session {
	s := &Session{hub: h, conn: c, peer: p, id: uuid.NewString(), denials: rate.NewLimiter(auditEvery, auditBurst), visits: rate.NewLimiter(visitEvery, visitBurst)}
	s.limit(h.o.Limits.CustomerMessages, h.o.Limits.CustomerCommands)
	h.Counters.Connects.Add(1)
	h.Counters.Sessions.Add(1)
	s.hello = time.AfterFunc(h.o.Limits.HelloTimeout, s.helloLate)
	h.mu.Lock()
	h.sessions.all[s] = struct{}{}
	h.mu.Unlock()
	if h.draining.Load() {
		s.close(proto.CloseDraining, "draining")
	}
	return s
}

func (s *Session) limit(messages, commands Rate) {
	s.messages = rate.NewLimiter(rate.Limit(messages.PerSecond), messages.Burst)
	s.commands = rate.NewLimiter(rate.Limit(commands.PerSecond), commands.Burst)
}

func (s *Session) helloLate() {
	s.mu.Lock()
	late := s.phase == connected
	s.mu.Unlock()
	if late {
		s.close(proto.CloseTryLater, fmt.Sprintf("no hello within %v", s.hub.o.Limits.HelloTimeout))
	}
}

// Closed tells the session that its transport is gone. The transport calls it once.
func (s *Session) Closed() {
	if s.gone.Swap(true) {
		return
	}
	s.hello.Stop()
	if t := s.expiry.Load(); t != nil {
		t.Stop()
	}
	s.hub.Counters.Sessions.Add(-1)
	s.hub.detach(s)
}

// Receive handles one message. Only the connection's loop may call it; data is not kept.
func (s *Session) Receive(data []byte) {
	h := s.hub
	h.Counters.Frames.Add(1)
	s.mu.Lock()
	phase, kind := s.phase, s.who().actor.Kind
	s.mu.Unlock()
	if phase == closed {
		return
	}
	if limit := messageLimit(phase, kind); len(data) > limit {
		s.close(proto.CloseTooLarge, fmt.Sprintf("message of %d bytes, the limit is %d", len(data), limit))
		return
	}
	r := s.sample()
	cmd, perr := proto.Decode(data)
	if r != nil {
		cmd.Trace = r
		if cmd.Type != "" {
			r.Rename(cmd.Type)
		}
	}
	if wait := take(s.commands, h.o.Now()); wait > 0 {
		s.overRate(cmd, wait)
		return
	}
	if perr != nil {
		s.fail(cmd, perr)
		if perr.Code == proto.CodeBadRequest {
			s.strike()
		}
		return
	}
	if phase != live {
		s.early(phase, cmd)
		return
	}
	s.handle(cmd)
	if mute(cmd.Payload) {
		s.told(cmd.Trace)
	}
}

func messageLimit(p phase, kind store.ActorKind) int {
	switch {
	case p != live:
		return proto.MaxHelloBytes
	case kind == store.Agent:
		return proto.MaxAgentBytes
	}
	return proto.MaxCustomerBytes
}

// take spends a token and returns 0, or returns how long until there is one.
func take(l *rate.Limiter, now time.Time) time.Duration {
	r := l.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

func (s *Session) overRate(cmd proto.Command, wait time.Duration) {
	s.refusals++
	if s.refusals >= maxRefusals {
		defer s.told(cmd.Trace)
		s.close(proto.CloseRateLimited, "too many commands over the rate")
		return
	}
	s.fail(cmd, rateLimited(wait))
}

func rateLimited(wait time.Duration) *proto.Error {
	return proto.Later(proto.CodeRateLimited, "too fast", wait)
}

func (s *Session) strike() {
	s.strikes++
	if s.strikes >= maxStrikes {
		s.close(proto.CloseProtocolError, fmt.Sprintf("%d bad requests", s.strikes))
	}
}

// early handles a command of a session that is not welcomed yet. A ping is answered at any time, because clients find out
// by it whether messages come through.
func (s *Session) early(p phase, cmd proto.Command) {
	cmd.Trace.Enter(trace.Handler, "session")
	if ping, ok := cmd.Payload.(*proto.Ping); ok {
		s.pong(cmd, ping)
		return
	}
	hello, ok := cmd.Payload.(*proto.Hello)
	if !ok || p != connected {
		s.fail(cmd, &proto.Error{Code: proto.CodeOutOfOrder, Text: "send hello once and wait for welcome"})
		s.strike()
		return
	}
	s.mu.Lock()
	if s.phase == connected {
		s.phase = greeting
	}
	s.mu.Unlock()
	s.hello.Stop()
	s.hub.greet(s, cmd, hello)
}

// who returns the identity, the zero one before hello was accepted.
func (s *Session) who() identity {
	if p := s.ident.Load(); p != nil {
		return *p
	}
	return identity{}
}

// fail sends an error reply and counts it.
func (s *Session) fail(cmd proto.Command, e *proto.Error) {
	s.hub.Counters.countError(string(e.Code))
	if cmd.Trace.Sampled() {
		cmd.Trace.Fail(errors.New(string(e.Code))) // the text may have words of the client
	}
	s.send(proto.Reply("err", cmd.ID, cmd.Conv, s.hub.crowd.spread(e, s.hub.o.Now())))
	s.told(cmd.Trace)
}

func (s *Session) reply(t string, cmd proto.Command, conv string, d any) {
	s.send(proto.Reply(t, cmd.ID, conv, d))
	s.told(cmd.Trace)
}

// send queues a message in whatever phase the session is, unless it is closed.
func (s *Session) send(frame []byte) {
	s.mu.Lock()
	ok := s.phase == closed || s.push(frame)
	s.mu.Unlock()
	if !ok {
		s.close(proto.CloseSlow, "slow consumer")
	}
}

// deliver gives an event to the session: now if it is live, after the missed ones if it is resuming.
func (s *Session) deliver(conv string, seq uint64, frame []byte) {
	s.mu.Lock()
	ok := true
	switch s.phase {
	case live:
		ok = s.push(frame)
	case resuming:
		s.buffer = append(s.buffer, pending{conv, seq, frame})
		s.buffered += len(frame)
		ok = s.buffered <= s.outbound()
	}
	s.mu.Unlock()
	if !ok {
		s.close(proto.CloseSlow, "slow consumer")
	}
}

// ephemeral sends an event that may be lost, and reports whether it was sent. It is dropped before the connection becomes
// slow.
func (s *Session) ephemeral(frame []byte) bool {
	s.mu.Lock()
	drop := s.phase != live || s.conn.Queued() > s.outbound()/4
	if !drop {
		drop = s.conn.Send(s.view(frame)) != nil
	}
	s.mu.Unlock()
	if drop {
		s.hub.Counters.Dropped.Add(1)
	}
	return !drop
}

// push sends and reports whether the connection keeps up. s.mu is held, so that events keep their order.
func (s *Session) push(frame []byte) bool {
	return s.conn.Queued() <= s.outbound() && !errors.Is(s.conn.Send(s.view(frame)), ErrSlow)
}

// outbound returns the number of bytes that may wait for the client.
func (s *Session) outbound() int {
	if s.who().actor.Kind == store.Agent {
		return s.hub.o.Limits.AgentOutbound
	}
	return s.hub.o.Limits.CustomerOutbound
}

// Close ends the session with a close code, because the transport has found something wrong.
func (s *Session) Close(code int, reason string) { s.close(code, reason) }

// close ends the session with a close code, once.
func (s *Session) close(code int, reason string) {
	s.mu.Lock()
	again := s.phase == closed
	s.phase, s.buffer = closed, nil
	s.mu.Unlock()
	if again || s.gone.Load() {
		return
	}
	s.hub.Counters.countClose(code)
	s.conn.Close(code, reason)
}
