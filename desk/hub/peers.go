package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
	"sync"

	"github.com/go-eddy/eddy/desk/store"
)

// Bus carries what servers tell each other besides the database: at most once, and in no order. See package bus.
type Bus interface {
	// Join has take called with what other servers send, one at a time. take does not block.
	Join(take func(topic string, data []byte)) error
	// Send sends to all other servers. It may block for a moment.
	Send(topic string, data []byte) error
	// Up reports whether there is a connection. It never blocks.
	Up() bool
}

// noBus is the bus of a server that has none.
type noBus struct{}

func (noBus) Join(func(string, []byte)) error { return nil }
func (noBus) Send(string, []byte) error       { return nil }
func (noBus) Up() bool                        { return false }

const (
	peersQueue = 1024   // messages that wait to be sent
	topicFeed  = "feed" // parts of the feed
	topicConv  = "conv" // what is about one conversation, whose id follows
)

// peers tells other servers over the bus what this one has committed, and what is not in the database. One goroutine
// sends; whoever has something for it never waits.
type peers struct {
	hub   *Hub
	bus   Bus
	queue chan outgoing
	ctx   context.Context
	end   context.CancelFunc
	done  sync.WaitGroup
}

type outgoing struct {
	topic string
	hint  hint
}

// hint is one message of the bus. It has one of its parts.
type hint struct {
	Shape  string     `json:",omitempty"` // of Part: a server with another one reads the part from the database
	Part   *store.Fed `json:",omitempty"`
	Typing *typed     `json:",omitempty"`
	Mark   *marking   `json:",omitempty"`
}

// typed says that somebody types, or does not any more.
type typed struct {
	From store.Actor
	On   bool
}

// marking says how far one side has got.
type marking struct {
	From store.Actor
	Mark store.Mark
}

func newPeers(h *Hub) *peers {
	p := &peers{hub: h, bus: h.o.Bus, queue: make(chan outgoing, peersQueue)}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// start joins the others. Before it nothing is heard.
func (p *peers) start() error {
	if err := p.bus.Join(p.take); err != nil {
		return fmt.Errorf("hub: joining the other servers on the bus: %w", err)
	}
	p.done.Go(p.run)
	return nil
}

func (p *peers) stop() {
	p.end()
	p.done.Wait()
}

func (p *peers) run() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case out := <-p.queue:
			data, err := json.Marshal(&out.hint)
			if err == nil {
				err = p.bus.Send(out.topic, data)
			}
			if err != nil {
				p.hub.Counters.BusLost.Add(1)
			}
		}
	}
}

// tell sends a hint, unless too many wait.
func (p *peers) tell(topic string, what hint) {
	if !p.bus.Up() {
		return
	}
	select {
	case p.queue <- outgoing{topic, what}:
	default:
		p.hub.Counters.BusLost.Add(1)
	}
}

// committed tells of a part of the feed that this server has committed. The turn of a bot is this server's.
func (p *peers) committed(part *store.Fed) {
	own := *part
	own.Turn = ""
	p.tell(topicFeed, hint{Shape: partShape, Part: &own})
}

// about tells something about a conversation.
func (p *peers) about(conv string, what hint) { p.tell(topicConv+"."+conv, what) }

// marked tells how far a side has got.
func (p *peers) marked(w *word) {
	m := &marking{w.contact, w.marks.Customer}
	if w.side == store.StaffSide {
		m = &marking{w.staff, w.marks.Staff}
	}
	p.about(w.conv, hint{Mark: m})
}

// take takes what another server has sent.
func (p *peers) take(topic string, data []byte) {
	kind, conv, _ := strings.Cut(topic, ".")
	if kind == topicConv && !p.concerns(conv) {
		return
	}
	var what hint
	if err := json.Unmarshal(data, &what); err != nil {
		p.hub.Counters.BusBad.Add(1)
		return
	}
	p.hub.feed.guard(func() {
		switch {
		case what.Part != nil && what.Shape == partShape:
			p.hub.feed.take(what.Part)
		case what.Part != nil:
			p.hub.feed.take(&store.Fed{First: what.Part.Last + 1, Last: what.Part.Last})
		case what.Typing != nil:
			p.hub.typed(what.Typing.From, conv, what.Typing.On)
		case what.Mark != nil:
			p.hub.receipts.told(conv, what.Mark.From, what.Mark.Mark)
		}
	})
}

// concerns reports whether what others say about a conversation is for somebody here.
func (p *peers) concerns(conv string) bool {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.queue.dir.open[conv]; e != nil {
		return len(h.sessions.contacts[e.conv.Contact]) > 0 || len(h.sessions.listeners(e.conv.Owner, e.conv.Owner, e, conv)) > 0
	}
	return len(h.sessions.watchers[conv]) > 0
}

// partShape tells apart programs whose parts of the feed have other fields.
//
//nolint:gochecknoglobals // computed once, never written
var partShape = shapeOf(reflect.TypeFor[store.Fed]())

func shapeOf(t reflect.Type) string {
	sum := fnv.New64a()
	known := make(map[reflect.Type]bool)
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		_, _ = fmt.Fprintf(sum, "%s %s;", t.Kind(), t)
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			if known[t] {
				return
			}
			known[t] = true
			for i := range t.NumField() {
				_, _ = fmt.Fprintf(sum, "%s %q:", t.Field(i).Name, t.Field(i).Tag)
				walk(t.Field(i).Type)
			}
		default:
		}
	}
	walk(t)
	return fmt.Sprintf("%x", sum.Sum64())
}
