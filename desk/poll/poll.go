// Package poll carries sessions of im.v1 over single HTTP requests, for clients behind proxies that break WebSockets. A
// Table finds the session of a request. A session keeps what its client has not acknowledged, so a lost answer loses nothing.
// The package knows nothing of HTTP: a request that waits is a function that takes its answer.
package poll

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/hub"
)

const (
	// Wait is how long a poll waits for an event.
	Wait = hub.PingInterval
	// Silence is how long a session lives after the begin of its last poll. Like a WebSocket's heartbeat, it allows PongTimeout
	// after Wait.
	Silence = hub.PingInterval + hub.PongTimeout

	linger    = hub.PongTimeout      // how long the end of a session can be asked for
	farewell  = 2 * time.Second      // how long Drain waits for that: a client between two polls comes at once
	gather    = 5 * time.Millisecond // what comes together is answered together
	batchSize = 64 << 10             // bytes of one answer, unless one event is larger
)

// ErrFull and ErrOver are returned by Open.
var (
	ErrFull = errors.New("poll: too many sessions")
	ErrOver = errors.New("poll: the server ends")
)

// Receiver is the session behind the transport, such as a hub.Session.
type Receiver interface {
	Receive(data []byte)
	Closed()
}

// Table holds the sessions of one server. Any goroutine may call its methods.
type Table struct {
	connect func(hub.Conn, hub.Peer) Receiver
	most    int // 0 = no limit

	mu   sync.Mutex
	all  map[string]*Session
	over bool
}

// NewTable returns a table for at most so many sessions, 0 = no limit. connect begins a session of the hub.
func NewTable(most int, connect func(hub.Conn, hub.Peer) Receiver) *Table {
	return &Table{connect: connect, most: most, all: make(map[string]*Session)}
}

// Open begins a session. leave is called once when it is forgotten; after an error it is not called.
func (t *Table) Open(p hub.Peer, leave func()) (*Session, error) {
	s := &Session{table: t, Peer: p, ID: rand.Text(), leave: leave, next: 1, polled: time.Now()}
	s.due = s.polled.Add(Silence)
	s.timer = time.AfterFunc(Silence, s.fire)
	if err := t.add(s); err != nil {
		s.timer.Stop()
		return nil, err
	}
	to := t.connect(s, p)
	s.mu.Lock()
	s.to = to
	tell := s.end != nil
	s.mu.Unlock()
	if tell {
		to.Closed()
	}
	return s, nil
}

func (t *Table) add(s *Session) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
		return ErrOver
	case t.most > 0 && len(t.all) >= t.most:
		return ErrFull
	}
	t.all[s.ID] = s
	return nil
}

// Find returns the session with this id, nil if there is none.
func (t *Table) Find(id string) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[id]
}

// Len returns the number of sessions.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// Drain waits until the clients of all sessions that are over have been told so, for two seconds at most. Call it before the
// server stops taking requests.
func (t *Table) Drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.all))
	t.mu.Unlock()
	for _, s := range all {
		s.mu.Lock()
		told := s.told
		s.mu.Unlock()
		if told == nil {
			continue
		}
		select {
		case <-told:
		case <-ctx.Done():
			return
		}
	}
}

// Close forgets all sessions. Polls that wait are answered. Open returns ErrOver from now on.
func (t *Table) Close() {
	t.mu.Lock()
	t.over = true
	all := slices.Collect(maps.Values(t.all))
	t.mu.Unlock()
	for _, s := range all {
		s.Leave()
	}
}

// forget takes a session out of the table, once.
func (t *Table) forget(s *Session) {
	t.mu.Lock()
	_, known := t.all[s.ID]
	delete(t.all, s.ID)
	t.mu.Unlock()
	if known {
		s.leave()
	}
}

// End says why a session is over, with a close code of im.v1.
type End struct {
	Code   int    `json:"code"`
	Reason string `json:"reason"`
}

// Session is one client's session. It is the hub.Conn of the session behind it. Any goroutine may call its methods.
type Session struct {
	ID   string // unguessable
	Peer hub.Peer

	table *Table
	leave func()

	receiving sync.Mutex // held while commands run
	next      uint64     // number of the next request with commands; receiving guards it

	mu     sync.Mutex
	to     Receiver // nil until connect has returned
	queue  [][]byte // events that were not acknowledged
	bytes  int      // in queue
	acked  uint64   // events before those in queue
	sent   uint64   // events that were in an answer
	waiter func(answer []byte)
	polled time.Time // when the last poll began
	due    time.Time // when timer is to do something
	timer  *time.Timer
	end    *End
	told   chan struct{} // closed when an answer says the end, or nobody asks for it any more; nil while the session lives
}

// Send implements hub.Conn.
func (s *Session) Send(frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return errors.New("poll: the session is over")
	}
	s.queue = append(s.queue, frame)
	s.bytes += len(frame)
	if s.waiter != nil && len(s.queue) == 1 {
		s.wake(time.Now().Add(gather))
	}
	return nil
}

// Queued implements hub.Conn. Events count until they are acknowledged.
func (s *Session) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Close implements hub.Conn. The client gets the code behind all events, and has some seconds to ask for it.
func (s *Session) Close(code int, reason string) { s.finish(End{code, reason}) }

// Leave ends the session at once, because the client has gone or the server ends.
func (s *Session) Leave() {
	s.finish(End{Code: 1000})
	s.mu.Lock()
	s.timer.Stop()
	s.tell()
	s.mu.Unlock()
	s.table.forget(s)
}

// tell ends the wait of Drain for a session that is over. s.mu is held.
func (s *Session) tell() {
	select {
	case <-s.told:
	default:
		close(s.told)
	}
}

// finish ends the session, once.
func (s *Session) finish(end End) {
	s.mu.Lock()
	if s.end != nil {
		s.mu.Unlock()
		return
	}
	s.end, s.told = &end, make(chan struct{})
	to, answer := s.to, s.answer()
	s.wake(time.Now().Add(linger))
	s.mu.Unlock()
	answer()
	if to != nil {
		to.Closed()
	}
}

// Over returns how the session has ended, nil if it lives.
func (s *Session) Over() *End {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// Commands runs the commands of request n, each as it was sent. A request that has run does nothing again. next is the
// number of the request that comes next; ok is false if n is above it.
func (s *Session) Commands(n uint64, commands [][]byte) (next uint64, ok bool) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	if n > s.next {
		return s.next, false
	}
	if n == s.next {
		s.next++
		for _, c := range commands {
			if s.Over() == nil {
				s.to.Receive(c)
			}
		}
	}
	return s.next, true
}

// Poll acknowledges the first after events of the session and asks for those behind them. answer is called once: now, or
// when there are events, after Wait, at the end of the session, or at the next Poll, which takes this one's place. answer
// must not block. An error names the bounds of after, and answer is not called.
func (s *Session) Poll(after uint64, answer func(body []byte)) error {
	s.mu.Lock()
	if after < s.acked || after > s.sent {
		defer s.mu.Unlock()
		return fmt.Errorf("after is %d: this session has acknowledged %d events and been sent %d", after, s.acked, s.sent)
	}
	for ; s.acked < after; s.acked++ {
		s.bytes -= len(s.queue[0])
		s.queue[0] = nil
		s.queue = s.queue[1:]
	}
	if len(s.queue) == 0 {
		s.queue = nil
	}
	previous := s.waiter
	s.waiter = nil
	s.polled = time.Now()
	var now []byte
	switch {
	case len(s.queue) > 0 || s.end != nil:
		now = s.take()
		if s.end == nil {
			s.wake(s.polled.Add(Silence))
		}
	default:
		s.waiter = answer
		s.wake(s.polled.Add(Wait))
	}
	s.mu.Unlock()
	if previous != nil {
		previous(batch(after, nil, nil))
	}
	if now != nil {
		answer(now)
	}
	return nil
}

// wake sets when fire is to be called. s.mu is held.
func (s *Session) wake(at time.Time) {
	s.due = at
	s.timer.Reset(time.Until(at))
}

// fire answers the poll that waits, or ends a session without one.
func (s *Session) fire() {
	s.mu.Lock()
	if rest := time.Until(s.due); rest > 0 { // it was set anew meanwhile
		s.timer.Reset(rest)
		s.mu.Unlock()
		return
	}
	if s.waiter == nil {
		s.mu.Unlock()
		s.Leave()
		return
	}
	answer := s.answer()
	s.wake(s.polled.Add(Silence))
	s.mu.Unlock()
	answer()
}

// answer takes the poll that waits, if there is one, and returns what answers it. s.mu is held then, and not in the call.
func (s *Session) answer() func() {
	waiter := s.waiter
	if waiter == nil {
		return func() {}
	}
	s.waiter = nil
	body := s.take()
	return func() { waiter(body) }
}

// take returns the next answer. Its events stay in the queue. s.mu is held.
func (s *Session) take() []byte {
	n, size := 0, 0
	for n < len(s.queue) && (n == 0 || size+len(s.queue[n]) <= batchSize) {
		size += len(s.queue[n])
		n++
	}
	last := s.acked + uint64(n)
	s.sent = max(s.sent, last)
	end := s.end
	if n < len(s.queue) {
		end = nil // comes behind all events
	}
	if end != nil {
		s.tell()
	}
	return batch(last, s.queue[:n], end)
}

// batch is the body of an answer.
func batch(last uint64, events [][]byte, end *End) []byte {
	var b bytes.Buffer
	b.WriteString(`{"last":`)
	b.Write(strconv.AppendUint(b.AvailableBuffer(), last, 10))
	b.WriteString(`,"events":[`)
	for i, e := range events {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(e)
	}
	b.WriteByte(']')
	if end != nil {
		text, _ := json.Marshal(end) // a number and a string can always be encoded
		b.WriteString(`,"close":`)
		b.Write(text)
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// Split returns the commands of a body: the elements of an array, or the body itself.
func Split(body []byte) ([][]byte, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		return [][]byte{body}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	commands := make([][]byte, len(list))
	for i, c := range list {
		commands[i] = c
	}
	return commands, nil
}
