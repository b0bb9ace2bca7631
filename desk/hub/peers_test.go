package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// mesh is a bus inside one process.
type mesh struct {
	t      *testing.T
	unruly bool // messages are lost, doubled and overtake each other

	mu   sync.Mutex
	ends []*meshEnd
	rng  *rand.Rand
}

// meshEnd is what one server has of a mesh.
type meshEnd struct {
	m    *mesh
	down atomic.Bool
	come chan struct{}

	mu   sync.Mutex
	wait []message
}

type message struct {
	topic string
	data  []byte
}

func newMesh(t *testing.T, unruly bool) *mesh {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &mesh{t: t, unruly: unruly, rng: rand.New(rand.NewPCG(seed, 1))}
}

func (m *mesh) end() *meshEnd {
	e := &meshEnd{m: m, come: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends = append(m.ends, e)
	return e
}

func (m *mesh) rand(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rng.IntN(n)
}

func (e *meshEnd) Up() bool { return !e.down.Load() }

func (e *meshEnd) Join(take func(string, []byte)) error {
	quit, done := make(chan struct{}), make(chan struct{})
	e.m.t.Cleanup(func() { close(quit); <-done })
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-e.come:
			}
			for {
				next, ok := e.next()
				if !ok {
					break
				}
				take(next.topic, next.data)
			}
		}
	}()
	return nil
}

func (e *meshEnd) next() (message, bool) {
	i := 0
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.wait) == 0 {
		return message{}, false
	}
	if e.m.unruly {
		i = e.m.rand(min(4, len(e.wait)))
	}
	next := e.wait[i]
	if !e.m.unruly || e.m.rand(5) > 0 { // else it comes twice
		e.wait = append(e.wait[:i:i], e.wait[i+1:]...)
	}
	return next, true
}

var errDown = errors.New("the bus is down")

func (e *meshEnd) Send(topic string, data []byte) error {
	if !e.Up() {
		return errDown
	}
	e.m.mu.Lock()
	all := e.m.ends
	e.m.mu.Unlock()
	for _, other := range all {
		if other == e || !other.Up() || e.m.unruly && e.m.rand(4) == 0 {
			continue
		}
		other.mu.Lock()
		other.wait = append(other.wait, message{topic, data})
		other.mu.Unlock()
		wake(other.come)
	}
	return nil
}

// patientAfter is a clock on which what the bus may bring never comes too late.
func patientAfter(d time.Duration) (<-chan time.Time, func() bool) {
	if d == feedWait {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(d)
	return timer.C, timer.Stop
}

func meshed(t *testing.T, m *mesh, after func(time.Duration) (<-chan time.Time, func() bool)) (one, two *rig) {
	t.Helper()
	o := Options{Limits: testLimits(), Bus: m.end(), After: after}
	oToo := o
	oToo.Bus = m.end()
	return twoHubsOf(t, o, oToo)
}

// chatOfTwo begins a chat of a customer at one server and an agent at the other.
func chatOfTwo(one, two *rig) (ann, lin *desktest.Client, conv string) {
	one.t.Helper()
	ann, lin = one.customer(), two.agent("lin")
	two.ok(lin.Connected(two.ctx))
	conv = one.open(ann, "human")
	two.waitFor("the other hub to know the chat", func() bool {
		two.hub.mu.Lock()
		defer two.hub.mu.Unlock()
		return two.hub.queue.dir.open[conv] != nil
	})
	two.ok(lin.Take(two.ctx, conv))
	one.event(ann, conv, state(store.Assigned))
	return ann, lin, conv
}

// TestTwoHubsBus: what two servers commit reaches the other one over the bus alone, with who types and what is read.
func TestTwoHubsBus(t *testing.T) {
	one, two := meshed(t, newMesh(t, false), patientAfter)
	ann, lin, conv := chatOfTwo(one, two)
	for range 20 {
		one.say(ann, conv, "hello")
		two.event(lin, conv, body("hello"))
		two.say(lin, conv, "good day")
		one.event(ann, conv, body("good day"))
	}
	one.checkView(ann, conv, store.CustomerSide)
	two.checkView(lin, conv, store.StaffSide)
	two.waitFor("the customer to be known", func() bool { return two.left(conv) == 0 })

	asked := one.customer()
	one.event(asked, one.open(asked, "bot"), fromBot)
	two.waitFor("the other server to have heard of it", func() bool { return two.hub.feed.place() == one.hub.feed.place() })
	if n := two.hub.Counters.BotTurns.Load(); n != 0 {
		t.Errorf("the bot was asked %d times by a server that nobody wrote to", n)
	}

	contact := ann.Me().ID
	for _, at := range []struct {
		r, other *rig
		from, to *desktest.Client
		there    string
	}{{one, two, ann, lin, lin.Me().ID}, {two, one, lin, ann, contact}} {
		at.r.waitFor("the other side to be known to be elsewhere", func() bool {
			at.r.hub.mu.Lock()
			defer at.r.hub.mu.Unlock()
			return at.r.hub.sessions.elsewhere[at.there]
		})
		at.r.ok(at.from.Tell(at.r.ctx, "typing", conv, proto.Typing{On: true}))
		at.other.other(at.to, isType("ev.typing"))
	}
	one.receipt(ann, conv, 3, 2)
	two.other(lin, isType("ev.receipt"))
	two.receipt(lin, conv, 5, 4)
	one.other(ann, isType("ev.receipt"))
	for _, r := range []*rig{one, two} {
		c := &r.hub.Counters
		if c.FeedGaps.Load()+c.BusLost.Load()+c.BusBad.Load() != 0 {
			t.Errorf("%d parts were read, %d messages lost, %d not understood", c.FeedGaps.Load(), c.BusLost.Load(), c.BusBad.Load())
		}
	}
}

// TestTwoHubsUnrulyBus: on a bus that loses, doubles and reorders, nobody misses anything or sees it twice.
func TestTwoHubsUnrulyBus(t *testing.T) {
	one, two := meshed(t, newMesh(t, true), nil)
	ann, lin, conv := chatOfTwo(one, two)
	for range 100 {
		ann.Send(conv, "from one")
		lin.Send(conv, "from two")
	}
	one.ok(ann.Flushed(one.ctx))
	two.ok(lin.Flushed(two.ctx))
	one.checkView(ann, conv, store.CustomerSide)
	two.checkView(lin, conv, store.StaffSide)
	for _, r := range []*rig{one, two} {
		if n := r.hub.Counters.Rebuilds.Load(); n != 0 {
			t.Errorf("everything was read again %d times", n)
		}
	}
}

// TestTwoHubsBusDown: who is cut from the bus, or hears nothing of somebody who is, reads from the database. Nothing is read
// in a hurry when the bus comes back.
func TestTwoHubsBusDown(t *testing.T) {
	m := newMesh(t, false)
	one, two := meshed(t, m, nil)
	ann, lin, conv := chatOfTwo(one, two)
	talk := func(text string) {
		t.Helper()
		one.say(ann, conv, text)
		two.event(lin, conv, body(text))
		two.say(lin, conv, "re: "+text)
		one.event(ann, conv, body("re: "+text))
	}
	talk("both are up")
	for i, cut := range m.ends {
		cut.down.Store(true)
		talk(fmt.Sprintf("%d is cut", i))
		m.ends[1-i].down.Store(true)
		talk(fmt.Sprintf("both are cut, %d was first", i))
		cut.down.Store(false)
		m.ends[1-i].down.Store(false)
		talk(fmt.Sprintf("%d is back", i))
	}
	one.checkView(ann, conv, store.CustomerSide)
	two.checkView(lin, conv, store.StaffSide)
	if n := one.hub.Counters.FeedGaps.Load() + two.hub.Counters.FeedGaps.Load(); n == 0 {
		t.Error("nothing was read from the database")
	}
}

// TestTwoHubsReadLater: without a bus, what was read at one server is known at the other one with the next message.
func TestTwoHubsReadLater(t *testing.T) {
	one, two := twoHubs(t)
	ann, lin, conv := chatOfTwo(one, two)
	one.say(ann, conv, "hello")
	two.event(lin, conv, body("hello"))
	two.receipt(lin, conv, 4, 4)
	one.waitFor("the mark to be stored", func() bool {
		c, err := one.db.Cold().Conversation(one.ctx, conv)
		one.ok(err)
		return c.Marks.Staff.Read > 0
	})
	two.say(lin, conv, "good day")
	one.other(ann, func(f desktest.Frame) bool {
		var p proto.ReceiptNow
		if f.T != "ev.receipt" || f.C != conv {
			return false
		}
		f.Decode(&p)
		return p.Read > 0
	})
}

// TestFeedHolds: a part waits for the one before it while the bus may bring that, but not for ever, and not many do.
func TestFeedHolds(t *testing.T) {
	late := make(chan time.Time)
	o := Options{Limits: testLimits(), Bus: newMesh(t, false).end(), After: func(d time.Duration) (<-chan time.Time, func() bool) {
		if d == feedWait {
			return late, func() bool { return true }
		}
		timer := time.NewTimer(d)
		return timer.C, timer.Stop
	}}
	r := newRig(t, o)
	f := r.hub.feed
	r.waitFor("the feed to have caught up", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return !f.behind
	})
	at := f.place()
	part := func(first, last int64) { f.take(&store.Fed{First: at + first, Last: at + last}) }
	state := func(place int64, held int, gaps uint64) {
		t.Helper()
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.at != at+place || len(f.held) != held || r.hub.Counters.FeedGaps.Load() != gaps {
			t.Fatalf("at %d, %d held, %d gaps: want %d, %d, %d", f.at-at, len(f.held), r.hub.Counters.FeedGaps.Load(), place, held, gaps)
		}
	}
	part(2, 2)
	part(5, 6)
	part(3, 4)
	part(3, 4) // again
	part(9, 8) // there is something up to 8
	state(0, 3, 0)
	part(1, 1)
	state(6, 0, 0)
	part(4, 4) // late
	part(8, 8)
	state(6, 1, 0)
	late <- time.Time{} // of the first that was missing: another one is missing now
	r.waitFor("the next one to be awaited", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.awaited == at+8
	})
	part(7, 7)
	state(8, 0, 0)
	part(10, 10)
	late <- time.Time{}
	late <- time.Time{} // 9 has not come
	r.waitFor("what is missing to be read", func() bool { return f.place() == at+10 })
	state(10, 0, 1)

	for i := range int64(feedHeld) {
		part(12+i, 12+i)
	}
	state(10, feedHeld, 1)
	part(13+feedHeld, 13+feedHeld)
	r.waitFor("everything to be read", func() bool { return f.place() == at+13+feedHeld })
	state(13+feedHeld, 0, 2)
}

// TestPartOnTheBus: every field of a part arrives, and a server that has other fields reads the part instead.
func TestPartOnTheBus(t *testing.T) {
	var n int
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		n++
		switch v.Kind() {
		case reflect.String:
			v.SetString(fmt.Sprintf("s%d", n))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(n))
		case reflect.Uint64:
			v.SetUint(uint64(n))
		case reflect.Float64:
			v.SetFloat(float64(n))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0))
			fill(v.Index(1))
		case reflect.Array:
			for i := range v.Len() {
				fill(v.Index(i))
			}
		case reflect.Uint8:
			v.SetUint(uint64(n % 200))
		case reflect.Map:
			v.Set(reflect.MakeMap(v.Type()))
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key)
			fill(value)
			v.SetMapIndex(key, value)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		default:
			t.Fatalf("a field is a %s: let it travel, and this test know it", v.Type())
		}
	}
	var part, came store.Fed
	fill(reflect.ValueOf(&part).Elem())
	data, err := json.Marshal(&part)
	if err == nil {
		err = json.Unmarshal(data, &came)
	}
	if err != nil || !reflect.DeepEqual(part, came) {
		t.Errorf("%v: %+v came as %+v", err, part, came)
	}
	type wider struct {
		store.Fed
		More int
	}
	if a, b := shapeOf(reflect.TypeFor[store.Fed]()), shapeOf(reflect.TypeFor[wider]()); a == b || a != partShape {
		t.Errorf("the shapes are %s, %s and %s", a, b, partShape)
	}

	r := newRig(t, Options{Limits: testLimits()})
	ann := r.customer()
	conv := r.open(ann, "human")
	at := r.hub.feed.place()
	send := func(h hint) {
		data, err := json.Marshal(h)
		r.ok(err)
		r.hub.peers.take(topicFeed, data)
	}
	moved := store.Fed{First: at + 1, Last: at + 1, Conv: store.Conversation{ID: conv, Rev: 1000, Contact: ann.Me().ID}, Touched: true}
	send(hint{Part: &moved, Shape: "another"})
	r.waitFor("the part to be read", func() bool { return r.hub.feed.place() == at+1 })
	for _, c := range r.hub.known() {
		if c.Rev == 1000 {
			t.Error("the part of a program with other fields was taken over")
		}
	}
	for _, bad := range []string{"", "{", `{"Part":5}`, "{}"} {
		r.hub.peers.take(topicFeed, []byte(bad))
	}
	if n := r.hub.Counters.BusBad.Load(); n != 3 {
		t.Errorf("%d messages could not be read", n)
	}
}

// TestReadyWhileLate: a server that does not learn what others commit says after a while that it is not ready, and is again when
// it has.
func TestReadyWhileLate(t *testing.T) {
	clock := &fakeClock{t: time.Now()}
	r := newRig(t, Options{Limits: testLimits(), Now: clock.now})
	f := r.hub.feed
	r.calm()
	r.fault.feed.fail(true)
	at := f.place()
	f.take(&store.Fed{First: at + 1, Last: at + 2, At: 1}) // nothing is missing before it
	r.ok(r.hub.Ready())
	f.take(&store.Fed{First: at + 6, Last: at + 5})
	clock.advance(maxLate)
	r.ok(r.hub.Ready())
	clock.advance(time.Second)
	if err := r.hub.Ready(); err == nil || !strings.Contains(err.Error(), "11 seconds") {
		t.Errorf("late for 11 seconds: %v", err)
	}
	if _, behind, _ := f.standing(); behind != 3 {
		t.Errorf("%d rows behind", behind)
	}
	r.fault.feed.fail(false)
	r.waitFor("the server to be ready", func() bool { return r.hub.Ready() == nil })
	if l := r.hub.Lags(); l.Count != 1 {
		t.Errorf("%d parts came from elsewhere", l.Count)
	}
}

// stuck is a bus that takes nothing.
type stuck struct{ end chan struct{} }

func (stuck) Join(func(string, []byte)) error { return nil }
func (stuck) Up() bool                        { return true }
func (s stuck) Send(string, []byte) error     { <-s.end; return errDown }

// TestBusStuck: a bus that takes nothing keeps nobody from anything. What does not fit is lost, and counted.
func TestBusStuck(t *testing.T) {
	s := stuck{make(chan struct{})}
	r := newRig(t, Options{Limits: testLimits(), Bus: s})
	t.Cleanup(func() { close(s.end) }) // before the hub ends
	ann := r.customer()
	conv := r.open(ann, "human")
	for i := range 2 * peersQueue {
		r.hub.typing(store.Actor{Kind: store.Customer, ID: ann.Me().ID}, conv, i%2 == 0)
	}
	if n := r.hub.Counters.BusLost.Load(); n != 0 {
		t.Errorf("%d hints were sent to nobody", n)
	}
	for range 2 * peersQueue {
		r.hub.peers.about(conv, hint{Typing: &typed{}})
	}
	r.say(ann, conv, "it goes on")
	if n := r.hub.Counters.BusLost.Load(); n < peersQueue {
		t.Errorf("%d messages were lost", n)
	}
}
