package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/lease"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sqlitetest.Closing{M: m}) }

// wire is a connection in memory: the hub sees a Conn, the client a Transport.
type wire struct {
	session *Session
	recv    sync.Mutex // Receive is called by one goroutine at a time, as on a loop

	mu     sync.Mutex
	wake   chan struct{}
	out    [][]byte
	queued int
	stall  bool // the client does not read
	closed bool
	code   int
	reason string
}

func connect(h *Hub, p Peer) *wire {
	w := &wire{wake: make(chan struct{})}
	s := h.Connect(w, p)
	w.mu.Lock()
	w.session = s
	over := w.closed
	w.mu.Unlock()
	if over {
		s.Closed()
	}
	return w
}

func (w *wire) signal() {
	close(w.wake)
	w.wake = make(chan struct{})
}

func (w *wire) Send(frame []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return io.ErrClosedPipe
	}
	w.out = append(w.out, frame)
	w.queued += len(frame)
	w.signal()
	return nil
}

func (w *wire) Queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queued
}

func (w *wire) end(code int, reason string) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.closed, w.code, w.reason = true, code, reason
	w.signal()
	s := w.session
	w.mu.Unlock()
	if s != nil {
		s.Closed()
	}
}

// wireTransport is the client's end.
type wireTransport struct{ *wire }

func (w *wire) client() desktest.Transport { return wireTransport{w} }

func (t wireTransport) Close() error { t.end(1006, "cut"); return nil }

func (t wireTransport) Write(_ context.Context, frame []byte) error {
	t.recv.Lock()
	defer t.recv.Unlock()
	t.mu.Lock()
	closed := t.closed
	t.mu.Unlock()
	if closed {
		return io.ErrClosedPipe
	}
	t.session.Receive(frame)
	return nil
}

func (t wireTransport) Read(ctx context.Context) ([]byte, error) {
	for {
		t.mu.Lock()
		if len(t.out) > 0 && !t.stall {
			frame := t.out[0]
			t.out = t.out[1:]
			t.queued -= len(frame)
			t.mu.Unlock()
			return frame, nil
		}
		closed, wake := t.closed, t.wake
		err := fmt.Errorf("closed: %d %s", t.code, t.reason)
		t.mu.Unlock()
		if closed {
			return nil, err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close is the hub's end: what is queued may still be read.
func (w *wire) Close(code int, reason string) { w.end(code, reason) }

func (w *wire) closeCode() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.code
}

// rig is a hub on a SQLite store with a site, and the means to make clients.
type rig struct {
	t       *testing.T
	ctx     context.Context
	db      *sqlstore.DB
	fault   *faultStore
	hub     *Hub
	site    store.Site
	lent    *sqlstore.DB     // nil if the store was not lent
	many    bool             // it is one of several servers
	machine func() time.Time // the clock of its machine; nil = none, o.Now is the time of everything
	path    string
	o       Options

	mu      sync.Mutex
	wires   []*wire
	clients []*desktest.Client
}

// patient are the default limits, without the deadlines that a slow machine would miss.
func patient() Limits {
	const far = sqlitetest.Far
	return Limits{HelloTimeout: far, CommandAge: far, ReadTimeout: far, SearchTimeout: far, BotTimeout: far, AgentSettle: -1, IdleAway: -1}
}

// quick rates and waits, so that tests do not run into limits they are not about.
func testLimits() Limits {
	l, plenty := patient(), Rate{1e6, 1e6}
	l.CustomerMessages, l.AgentMessages, l.CustomerCommands, l.AgentCommands, l.QueueEvery = plenty, plenty, plenty, plenty, 10*time.Millisecond
	return l
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	l := sqlitetest.Lend(t, o.clock())
	return beginRig(&rig{t: t, o: o, path: l.Place, lent: l.DB})
}

// newBubbleRig is newRig for a bubble of synctest: the store has to be opened in it.
func newBubbleRig(t *testing.T, o Options) *rig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "desk.db")
	sqlitetest.Prepare(t, path)
	return beginRig(&rig{t: t, o: o, path: path})
}

// beginRig makes the site and starts the hub, on the store that was lent or else on one that it opens at path.
func beginRig(r *rig) *rig {
	t := r.t
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*testkit.Patience) // for the whole test: only against a hang
	t.Cleanup(cancel)
	r.ctx = ctx
	if r.lent == nil {
		r.openStore()
	} else {
		r.use(r.lent)
	}
	var err error
	if r.site, err = r.db.CreateSite(ctx, store.Site{Key: "demo", Name: "Demo", BotName: "Eddy"}); err != nil {
		t.Fatal(err)
	}
	r.startHub()
	t.Cleanup(r.end)
	return r
}

func (o *Options) clock() func() time.Time {
	if o.Now == nil {
		return time.Now
	}
	return o.Now
}

func (r *rig) use(db *sqlstore.DB) { r.db, r.fault = db, &faultStore{Store: db} }

func (r *rig) openStore() {
	r.t.Helper()
	o := sqlitetest.Options(r.path)
	o.Now, o.Machine, o.Alone = r.o.Now, r.machine, !r.many
	db, err := sqlstore.Open(r.ctx, o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.use(db)
}

func (r *rig) startHub() {
	r.t.Helper()
	o := r.o
	o.Store = r.fault
	if o.Routing.Strategy == "" {
		o.Routing.Strategy = store.Manual // most tests are not about the router
	}
	if o.Now = o.clock(); r.machine != nil {
		o.Now = r.db.Now
	}
	if o.Hold == nil {
		o.Hold = lease.Options{Store: r.fault, Life: time.Second, Logger: slog.New(slog.DiscardHandler)}.Hold("router")
	}
	secret, err := r.db.Secret(r.ctx, "tickets")
	r.ok(err)
	o.Tickets, err = auth.NewTickets(secret, o.Now)
	r.ok(err)
	o.Logger = slog.New(slog.DiscardHandler)
	h, err := New(o)
	if err == nil {
		err = h.Start(r.ctx)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.hub = h
	r.mu.Unlock()
}

// stop ends the hub and closes the store.
func (r *rig) stop() {
	r.t.Helper()
	r.halt()
	r.ok(r.db.Close())
}

// end is the end of the test: a store that was lent stays open.
func (r *rig) end() {
	r.t.Helper()
	if r.db != r.lent {
		r.stop()
		return
	}
	r.halt()
}

func (r *rig) halt() {
	r.t.Helper()
	r.fault.heal()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if err := r.theHub().Shutdown(ctx); err != nil {
		r.t.Error(err)
	}
	r.lost()
}

// lost waits until every client has noticed that the hub has ended: until then a command goes to the connection that it has lost.
func (r *rig) lost() {
	r.t.Helper()
	r.mu.Lock()
	clients := slices.Clone(r.clients)
	r.mu.Unlock()
	for _, c := range clients {
		if err := c.Disconnected(r.ctx); err != nil {
			r.t.Error(err)
		}
	}
}

func (r *rig) theHub() *Hub {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hub
}

func (r *rig) dial(p Peer) *wire {
	w := connect(r.theHub(), p)
	r.mu.Lock()
	r.wires = append(r.wires, w)
	r.mu.Unlock()
	return w
}

// visitor makes a contact and returns its token.
func (r *rig) visitor() string {
	r.t.Helper()
	token, hash := auth.NewToken()
	if _, err := r.db.CreateVisitor(r.ctx, r.site, hash, time.Now().Add(time.Hour)); err != nil {
		r.t.Fatal(err)
	}
	return token
}

func (r *rig) client(dial desktest.Dialer) *desktest.Client {
	c := desktest.New(dial)
	r.t.Cleanup(c.Close)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients = append(r.clients, c)
	return c
}

func (r *rig) customer() *desktest.Client {
	r.t.Helper()
	token := r.visitor()
	return r.client(func(context.Context) (desktest.Transport, proto.Hello, error) {
		return r.dial(Peer{}).client(), proto.Hello{Token: token, Locale: "en"}, nil
	})
}

func (r *rig) account(login string, capacity int) store.AgentAccount {
	r.t.Helper()
	a, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: login, Name: login, Password: "x", Capacity: capacity})
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) agent(login string) *desktest.Client {
	r.t.Helper()
	return r.agentClient(r.account(login, 100))
}

// login makes a login session of an agent.
func (r *rig) login(a store.AgentAccount) store.Token {
	r.t.Helper()
	_, hash := auth.NewToken()
	r.ok(r.db.CreateAgentSession(r.ctx, hash, a.ID, time.Now().Add(time.Hour)))
	return hash
}

func (r *rig) agentClient(a store.AgentAccount) *desktest.Client {
	session := r.login(a)
	return r.client(func(context.Context) (desktest.Transport, proto.Hello, error) {
		h := r.theHub()
		ticket := h.o.Tickets.Issue(a.ID, session)
		return r.dial(Peer{}).client(), proto.Hello{Ticket: ticket}, nil
	})
}

func (r *rig) open(c *desktest.Client, wants string) string {
	r.t.Helper()
	conv, err := c.Open(r.ctx, wants)
	if err != nil {
		r.t.Fatal(err)
	}
	return conv
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// do runs a command and returns the code of the error reply, "" for success.
func (r *rig) do(c *desktest.Client, t, conv string, d any) proto.Code {
	r.t.Helper()
	f, err := c.Do(r.ctx, t, conv, d)
	r.ok(err)
	return code(f)
}

func code(f desktest.Frame) proto.Code {
	if f.T != "err" {
		return ""
	}
	var e proto.Error
	f.Decode(&e)
	return e.Code
}

// event waits for a durable event.
func (r *rig) event(c *desktest.Client, conv string, match func(desktest.Frame) bool) desktest.Frame {
	r.t.Helper()
	f, err := c.Event(r.ctx, conv, match)
	r.ok(err)
	return f
}

func (r *rig) other(c *desktest.Client, match func(desktest.Frame) bool) desktest.Frame {
	r.t.Helper()
	f, err := c.Other(r.ctx, match)
	r.ok(err)
	return f
}

// body matches a message by its text.
func body(text string) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		var m proto.Msg
		return f.T == "ev.msg" && json.Unmarshal(f.D, &m) == nil && m.Body == text
	}
}

// state matches a state change by the state it led to.
func state(to store.State) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		var ch proto.StateChange
		return f.T == "ev.state" && json.Unmarshal(f.D, &ch) == nil && ch.State == string(to)
	}
}

func fromBot(f desktest.Frame) bool {
	var m proto.Msg
	return f.T == "ev.msg" && json.Unmarshal(f.D, &m) == nil && m.From.Kind == "bot"
}

func (r *rig) waitFor(what string, cond func() bool) {
	r.t.Helper()
	testkit.Eventually(r.t, what, cond)
}

// checkView compares what a client shows with what is stored.
func (r *rig) checkView(c *desktest.Client, conv string, side store.Side) {
	r.t.Helper()
	events, more, err := r.db.Cold().Events(r.ctx, conv, side, 0, 1_000_000, 1<<30)
	if err != nil || more {
		r.t.Fatal(err, more)
	}
	last := uint64(0)
	if len(events) > 0 {
		last = events[len(events)-1].S(side)
	}
	r.ok(c.Complete(r.ctx, conv, last))
	view := c.View(conv)
	if len(view) != len(events) {
		r.t.Fatalf("the view has %d events, the store %d", len(view), len(events))
	}
	for i := range events {
		var want desktest.Frame
		if err := json.Unmarshal(eventFrame(&events[i], side), &want); err != nil {
			r.t.Fatal(err)
		}
		got := view[i]
		if got.S != uint64(i+1) || got.S != want.S || got.T != want.T || string(got.D) != string(want.D) {
			r.t.Fatalf("event %d: the view has %+v, the store %+v", i, got, want)
		}
	}
}

// faultStore can hang or fail chosen calls.
type faultStore struct {
	store.Store
	mu     sync.Mutex
	do     func(cmd store.Command, pass func(), fail func(error)) // nil = pass
	cold   chan struct{}                                          // non-nil: reads for staff hang until it is closed
	hot    chan struct{}                                          // the same for customers
	hung   int
	parked []func()
	marks  int // saves of receipts that still fail
	turns  int // reads of bot turns that still fail

	routing routingFaults
	feed    feedFaults
}

func (f *faultStore) set(do func(cmd store.Command, pass func(), fail func(error))) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.do = do
}

func (f *faultStore) hangCold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cold = make(chan struct{})
}

func (f *faultStore) hangHot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hot = make(chan struct{})
}

// park keeps a call until heal.
func (f *faultStore) park(pass func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parked = append(f.parked, pass)
}

func (f *faultStore) parkedCalls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.parked)
}

func (f *faultStore) hungReads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hung
}

// heal lets everything go on.
func (f *faultStore) heal() {
	f.mu.Lock()
	f.do = nil
	parked := f.parked
	f.parked = nil
	for _, gate := range []*chan struct{}{&f.cold, &f.hot} {
		if *gate != nil {
			close(*gate)
			*gate = nil
		}
	}
	f.mu.Unlock()
	for _, pass := range parked {
		pass()
	}
}

func (f *faultStore) Do(cmd store.Command, deadline time.Time, done func(store.Outcome)) {
	f.mu.Lock()
	do := f.do
	if watch, told := f.routing.outcome, done; watch != nil {
		done = func(out store.Outcome) {
			watch(out)
			told(out)
		}
	}
	f.mu.Unlock()
	pass := func() { f.Store.Do(cmd, deadline, done) }
	if do == nil {
		pass()
		return
	}
	do(cmd, pass, func(err error) { done(store.Outcome{Err: err}) })
}

// SaveMarks fails as often as it is told to.
func (f *faultStore) SaveMarks(ctx context.Context, marks []store.ConvMarks) error {
	f.mu.Lock()
	fail := f.marks > 0
	f.marks = max(f.marks-1, 0)
	f.mu.Unlock()
	if fail {
		return errInjected
	}
	return f.Store.SaveMarks(ctx, marks)
}

func (f *faultStore) failMarks(times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marks = times
}

func (f *faultStore) Cold() store.Reader { return faultReader{f.Store.Cold(), f, &f.cold} }
func (f *faultStore) Hot() store.Reader  { return faultReader{f.Store.Hot(), f, &f.hot} }

// faultReader hangs in the reads that clients cause, deaf to their context as a stuck driver is.
type faultReader struct {
	store.Reader
	f    *faultStore
	gate *chan struct{}
}

func (r faultReader) hang() {
	r.f.mu.Lock()
	gate := *r.gate
	if gate != nil {
		r.f.hung++
	}
	r.f.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (r faultReader) Conversation(ctx context.Context, id string) (store.Conversation, error) {
	r.hang()
	return r.Reader.Conversation(ctx, id)
}

// BotPending fails as often as it is told to.
func (r faultReader) BotPending(ctx context.Context) ([]store.PendingTurn, error) {
	r.f.mu.Lock()
	fail := r.f.turns > 0
	r.f.turns = max(r.f.turns-1, 0)
	r.f.mu.Unlock()
	if fail {
		return nil, errInjected
	}
	return r.Reader.BotPending(ctx)
}

func (f *faultStore) failTurns(times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns = times
}

func (r faultReader) Search(ctx context.Context, s store.Scope, q string, f store.Filter, cursor string, limit int) ([]store.Hit, string, error) {
	r.hang()
	return r.Reader.Search(ctx, s, q, f, cursor, limit)
}

var errInjected = errors.New("injected")

func newClientID() string { return uuid.NewString() }
