package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// world is a store that everybody uses at random, and what has to be found in it afterwards.
type world struct {
	*rig
	rng    *rand.Rand
	group  string
	agents []store.AgentAccount
	gap    int64 // most that passes between two rounds, in nanoseconds
	alone  bool  // one command at a time: the store then has what it told

	mu       sync.Mutex // several commands may run at once
	contacts []store.Contact
	former   []store.Contact // merged into others, but they do not know it yet
	erased   map[string]bool
	convs    map[string]bool
	turns    map[string]string // conversation by turn
	counts   map[string]int    // rows of the outbox that are no events of a conversation, by type and id
	notes    map[string]string // about contacts
	filters  map[string]map[string]string
	left     map[string]uint64 // where the customer of a conversation began to wait for mails
	mails    map[string][]store.Mail
	files    []store.Attachment
	last     int // number that was used last
	ended    map[string]map[bool]int
}

// deed is one command of the world. prepare chooses it; what it returns may run beside others.
type deed struct {
	name    string
	often   int
	solo    bool // what it leaves depends on the order
	prepare func(w *world, at scene) func() error
}

// scene is where a deed happens: any conversation, also a closed one, with its customer, an agent, and one of them or of
// others who acts.
type scene struct {
	conv    store.Conversation
	contact store.Contact
	agent   store.AgentAccount
	actor   store.Actor
}

func newWorld(r *rig, seed uint64) *world {
	w := &world{
		rig: r, rng: rand.New(rand.NewPCG(seed, 7)), group: r.aiming(time.Millisecond, r.lin).ID, agents: []store.AgentAccount{r.lin, r.moe, r.agent("kim", 1)},
		erased: make(map[string]bool), convs: make(map[string]bool), turns: make(map[string]string), counts: make(map[string]int),
		notes: make(map[string]string), filters: make(map[string]map[string]string), left: make(map[string]uint64), mails: make(map[string][]store.Mail),
		ended: make(map[string]map[bool]int),
	}
	r.site.Group = w.group // so that any chat with people has a target
	r.must(r.UpdateSite(r.t.Context(), r.site))
	for range 4 {
		w.contacts = append(w.contacts, r.visitor())
	}
	return w
}

func deeds() []deed {
	return slices.Concat(chatDeeds(), staffDeeds(), peopleDeeds(), fileDeeds(), mailDeeds(), keptDeeds())
}

// testRandom: after random commands by anybody, some of them at once, data that the store keeps in several places agrees,
// whatever was refused.
func testRandom(t *testing.T, r *rig) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(r, seed)
	all := deeds()
	var deck, beside []deed
	for _, d := range all {
		deck = append(deck, slices.Repeat([]deed{d}, d.often)...)
	}
	beside = slices.DeleteFunc(slices.Clone(deck), func(d deed) bool { return d.solo })
	w.gap = int64(min(time.Hour, store.KeepDeadMails/time.Duration(r.b.Rounds))) // mails that were given up are not kept for longer
	for i := range r.b.Rounds {
		if i%100 == 99 {
			w.checkMails(w.alive()) // before the conversations are too old to be kept
		}
		if w.rng.IntN(4) == 0 {
			w.round(pick(w.rng, beside), pick(w.rng, beside), pick(w.rng, beside))
		} else {
			w.round(pick(w.rng, deck))
		}
	}
	w.gap = 0
	for _, d := range all { // what a short run has not come to
		for range 20_000 { // some deeds need what others have to lead to: once in some hundred, as a rule
			if w.ended[d.name][true] > 0 {
				break
			}
			w.round(pick(w.rng, deck))
			w.round(d)
		}
		if w.ended[d.name][true] == 0 {
			t.Errorf("%s never succeeded", d.name)
		}
	}
	w.check()
	if t.Failed() {
		t.Logf("%v", w.ended)
	}
}

// round runs deeds at once.
func (w *world) round(all ...deed) {
	w.alone = len(all) == 1
	if w.alone {
		w.note(all[0].name, all[0].prepare(w, w.scene())())
	} else {
		var runs []func() error
		for _, d := range all {
			runs = append(runs, d.prepare(w, w.scene()))
		}
		var at sync.WaitGroup
		for i, run := range runs {
			at.Go(func() { w.note(all[i].name, run()) })
		}
		at.Wait()
	}
	if w.gap > 0 {
		w.shift.Add(w.rng.Int64N(w.gap))
	}
	for len(w.contacts) < 4 {
		w.contacts = append(w.contacts, w.visitor())
	}
}

// note counts how a deed ended. An error that tells nobody anything is a fault of the store.
func (w *world) note(name string, err error) {
	known := err == nil
	for _, e := range []error{
		store.ErrNotFound, store.ErrConflict, store.ErrClosed, store.ErrForbidden, store.ErrCapacity, store.ErrBlocked, store.ErrSnooze, store.ErrMerge,
		store.ErrTooMany, store.ErrFile, store.ErrExists,
	} {
		known = known || errors.Is(err, e)
	}
	if !known {
		w.t.Errorf("%s: %v", name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended[name] == nil {
		w.ended[name] = make(map[bool]int)
	}
	w.ended[name][err == nil]++
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

func (w *world) scene() scene {
	at := scene{contact: pick(w.rng, w.contacts), agent: pick(w.rng, w.agents)}
	open, err := w.Cold().OpenConversations(w.t.Context())
	w.must(err)
	switch {
	case len(open) > 0 && w.rng.IntN(4) > 0:
		at.conv = pick(w.rng, open)
	case len(w.convs) > 0:
		at.conv = w.any(slices.Collect(maps.Keys(w.convs))...)
	}
	for _, c := range w.contacts {
		if c.ID == at.conv.Contact && w.rng.IntN(4) > 0 {
			at.contact = c
		}
	}
	if len(w.former) > 0 && w.rng.IntN(8) == 0 {
		at.contact = pick(w.rng, w.former)
	}
	at.actor = pick(w.rng, []store.Actor{at.contact.Actor(), at.agent.Actor(), system})
	if at.conv.State == store.Assigned && w.rng.IntN(2) == 0 {
		at.actor = at.conv.Owner
	}
	return at
}

// any returns the first of some conversations that is there.
func (w *world) any(ids ...string) store.Conversation {
	for _, id := range ids {
		c, err := w.Cold().Conversation(w.t.Context(), id)
		if err == nil {
			return c
		}
		if !errors.Is(err, store.ErrNotFound) {
			w.t.Fatal(err)
		}
		delete(w.convs, id)
	}
	return store.Conversation{}
}

// number returns one that was not used before.
func (w *world) number() int {
	w.last++
	return w.last
}

// command makes a deed of a command of a conversation.
func command(choose func(*world, scene) store.Command) func(*world, scene) func() error {
	return func(w *world, at scene) func() error {
		cmd := choose(w, at)
		return func() error { return w.run(cmd) }
	}
}

// call makes a deed of a method. It is told when the method has succeeded.
func call(choose func(*world, scene) (run func() error, done func())) func(*world, scene) func() error {
	return func(w *world, at scene) func() error {
		run, done := choose(w, at)
		return func() error {
			err := run()
			w.mu.Lock()
			defer w.mu.Unlock()
			if err == nil {
				done()
			}
			return err
		}
	}
}

func (w *world) run(cmd store.Command) error {
	out := w.try(cmd)
	w.mu.Lock()
	defer w.mu.Unlock()
	if out.Err != nil {
		return out.Err
	}
	if id := out.Conv.ID; id != "" {
		w.convs[id] = true
		if w.alone && !out.Dup && !out.Existing && out.Conv != w.head(id) {
			return fmt.Errorf("%+v: told %+v, kept %+v", cmd, out.Conv, w.head(id))
		}
	}
	if out.Dup {
		return nil
	}
	switch c := cmd.(type) {
	case store.Rate:
		w.counts[string(store.EventRated)+out.Conv.ID]++
	case store.LeftMessage:
		w.changed(out.Conv.Contact)
		if _, before := w.left[out.Conv.ID]; !before {
			w.left[out.Conv.ID] = out.Events[0].PSeq
		}
	case store.BotTurn:
		if !out.Discarded && len(c.Attributes) > 0 {
			w.changed(out.Conv.Contact)
		}
	}
	return nil
}

// changed notes that programs are to be told of a contact.
func (w *world) changed(contact string) { w.counts[string(store.EventContact)+contact]++ }
