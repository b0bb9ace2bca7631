package model

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store/storetest"
)

// step is one thing that people do. Everybody takes each of its steps once, and then any of them at random.
type step struct {
	name    string
	often   int
	reaches []string // commands of the store
	do      func(p *person, conv string)
}

// does makes a step of one command, whose answer changes nothing that the check looks for.
func does(name string, often int, reaches []string, payload func(p *person) any) step {
	return step{name, often, reaches, func(p *person, conv string) { p.do(name, conv, payload(p)) }}
}

// says is a step that everybody takes most.
func says(often int) step {
	return step{"msg.send", often, []string{"Append", "BotTurn"}, func(p *person, conv string) { p.say(conv, fmt.Sprintf("%s says %d", p.name, p.rng.Uint32())) }}
}

func reads() step {
	return step{"receipt", 1, []string{"SaveMarks"}, func(p *person, conv string) {
		n := uint64(len(p.View(conv)))
		if err := p.Tell(p.m.ctx, "receipt", conv, proto.Receipt{Delivered: n, Read: n * uint64(p.rng.IntN(2))}); err == nil {
			p.m.count("receipt: told")
		}
	}}
}

func customerSteps() []step {
	return []step{
		{"conv.open", 2, []string{"Open", "CreateVisitor"}, func(p *person, _ string) { p.open() }},
		{"a word to the bot", 2, []string{"Append", "BotTurn", "Move"}, func(p *person, conv string) { p.say(conv, "human") }},
		does("conv.handoff", 2, []string{"Move"}, func(*person) any { return map[string]any{"reason": "please"} }),
		does("conv.close", 1, []string{"Move"}, func(*person) any { return proto.Close{Reason: "done"} }),
		{"conv.rate", 1, []string{"Rate"}, func(p *person, conv string) {
			p.do("conv.close", conv, proto.Close{})
			r := proto.Rate{Score: 1 + p.rng.IntN(5), Comment: fmt.Sprint("comment ", p.rng.Uint32())}
			p.keep("rate "+conv, fmt.Sprint(r.Score, " ", r.Comment), p.do("conv.rate", conv, r))
		}},
		{"conv.leave", 1, []string{"LeftMessage"}, func(p *person, _ string) { p.leave() }},
		{"somebody else's", 1, nil, func(p *person, _ string) { p.do("sync", p.m.anyConv(p.rng), proto.Sync{}) }},
		{"visit", 1, []string{"Visited"}, func(p *person, _ string) {
			if err := p.Tell(p.m.ctx, "visit", "", proto.Visit{Page: "https://shop.example/" + p.name}); err == nil {
				p.m.count("visit: told")
			}
		}},
		reads(), says(12),
	}
}

func agentSteps() []step {
	one := func(p *person, of ...string) string { return of[p.rng.IntN(len(of))] }
	move := []string{"Move"}
	note := func(p *person) string { return one(p, "", "", "a note of "+p.name) }
	return []step{
		does("take", 3, move, func(*person) any { return proto.Take{} }),
		does("transfer", 1, move, func(p *person) any {
			return map[string]any{"agent": p.m.agentIDs[p.rng.IntN(agents)], "note": note(p)}
		}),
		does("transfer.accept", 1, move, func(*person) any { return map[string]any{} }),
		does("transfer.decline", 1, nil, func(*person) any { return map[string]any{} }),
		does("return", 1, move, func(p *person) any { return proto.Return{Note: note(p)} }),
		does("conv.close", 1, move, func(*person) any { return proto.Close{} }),
		does("reopen", 1, move, func(*person) any { return proto.Reopen{} }),
		does("note.send", 1, []string{"Append"}, func(p *person) any {
			return proto.Note{ClientID: uuid.NewString(), Body: "note " + fmt.Sprint(p.rng.Uint32())}
		}),
		does("watch", 1, nil, func(*person) any { return map[string]any{} }),
		does("unwatch", 1, nil, func(*person) any { return map[string]any{} }),
		{"status", 1, []string{"SetStatus", "SetGone"}, func(p *person, _ string) {
			p.do("status", "", map[string]any{"status": one(p, "online", "busy", "away", "finishing", "offline"), "accepting": p.rng.IntN(2) == 0})
		}},
		does("priority", 1, []string{"Arrange"}, func(p *person) any { return proto.Priority{Priority: one(p, "urgent", "high", "normal", "low")} }),
		does("snooze", 2, []string{"Snooze"}, func(p *person) any {
			return proto.Snooze{Until: int64(p.rng.IntN(2)) * time.Now().Add(time.Hour).UnixMilli()}
		}),
		{"tag", 2, []string{"Tag"}, func(p *person, conv string) {
			tag, change := fmt.Sprint(p.name, "-", p.rng.IntN(3)), proto.Tag{}
			value := one(p, "yes", "no")
			if value == "yes" {
				change.Add = []string{tag}
			} else {
				change.Remove = []string{tag}
			}
			p.keep("tag "+conv+" "+tag, value, p.do("tag", conv, change))
		}},
		{"contact.patch", 1, []string{"PatchContact", "Audit"}, func(p *person, _ string) {
			contact, value := p.m.people[p.rng.IntN(customers)].Me().ID, fmt.Sprint(p.rng.Uint32())
			p.keep("patch "+contact, value, p.do("contact.patch", "", proto.ContactPatch{Contact: contact, Attributes: map[string]string{p.name: value}}))
		}},
		{"filter saved", 1, []string{"SaveFilter"}, func(p *person, _ string) {
			name, value := fmt.Sprint("f", p.rng.IntN(3)), fmt.Sprint(p.rng.Uint32())
			p.keep("filter "+name, value, p.post("/api/v1/agent/filters", map[string]any{"name": name, "fields": map[string]string{"tag": value}}))
		}},
		{"filter dropped", 1, []string{"DropFilter"}, func(p *person, _ string) {
			name := fmt.Sprint("f", p.rng.IntN(3))
			p.keep("filter "+name, "", p.post("/api/v1/agent/filters/drop", map[string]any{"name": name}))
		}},
		{"contact.get", 1, nil, func(p *person, _ string) {
			p.do("contact.get", "", proto.ContactGet{Contact: p.m.people[p.rng.IntN(customers)].Me().ID})
		}},
		reads(), says(4),
	}
}

// step takes one step. What goes before the first conversation is none, however long that takes.
func (p *person) step() {
	all, conv := agentSteps(), ""
	which := func() string { return p.m.anyConv(p.rng) }
	if !p.staff {
		all, which = customerSteps(), p.own
	}
	for conv = which(); conv == ""; conv = which() {
		if p.m.ctx.Err() != nil {
			return
		}
		if !p.staff {
			p.open()
		}
		p.pause()
	}
	var s step
	if len(p.first) > 0 {
		s, p.first = p.first[0], p.first[1:]
	} else {
		var deck []step
		for _, s := range all {
			deck = append(deck, slices.Repeat([]step{s}, s.often)...)
		}
		s = deck[p.rng.IntN(len(deck))]
	}
	p.m.count("step " + s.name)
	s.do(p, conv)
	p.pause()
}

func (p *person) pause() { time.Sleep(time.Duration(p.rng.IntN(4)) * time.Millisecond) }

// word is what somebody has set: what was acknowledged last, and what may have been set without an answer.
type word struct {
	last string
	lost []string
}

func (w *word) may(value string) bool { return value == w.last || slices.Contains(w.lost, value) }

// Outcomes of a command.
const (
	done    = "ok"
	refused = "refused"
	unknown = "unknown"
)

// keep notes what a command has set.
func (p *person) keep(what, value, outcome string) {
	w := p.set[what]
	if w == nil {
		w = &word{}
		p.set[what] = w
	}
	switch outcome {
	case done:
		w.last = value
	case unknown:
		w.lost = append(w.lost, value)
	}
}

// do runs one command and says how it ended.
func (p *person) do(t, conv string, d any) string {
	f, err := p.Do(p.m.ctx, t, conv, d)
	p.m.count(t + ": " + ended(f, err))
	var e proto.Error
	switch {
	case err != nil:
		return unknown
	case f.T != "err":
		return done
	}
	if f.Decode(&e); e.Code == proto.CodeUnavailable || e.Code == proto.CodeInternal {
		return unknown
	}
	return refused
}

// post sends one request and says how it ended.
func (p *person) post(path string, v any) string {
	err := p.web.Post(p.m.ctx, path, v, nil)
	outcome := done
	if e, answered := errors.AsType[*proto.Error](err); answered && e.Code != "" && e.Code != proto.CodeUnavailable && e.Code != proto.CodeInternal {
		outcome = refused
	} else if err != nil {
		outcome = unknown
	}
	p.m.count(path + ": " + outcome)
	return outcome
}

func ended(f desktest.Frame, err error) string {
	switch {
	case errors.Is(err, desktest.ErrLost):
		return "lost"
	case err != nil:
		return err.Error()
	case f.T == "err":
		var e proto.Error
		f.Decode(&e)
		return string(e.Code)
	}
	return f.T
}

// TestModelReaches: the people of the model do what the table of the store's commands says that they do, and only that.
func TestModelReaches(t *testing.T) {
	reached := hostReaches()
	for _, s := range append(agentSteps(), customerSteps()...) {
		reached = append(reached, s.reaches...)
	}
	for _, p := range storetest.Proofs() {
		if does := slices.Contains(reached, p.Command); does != (p.Model == "") {
			t.Errorf("%s: the model does it: %v; the table's reason why not: %q", p.Command, does, p.Model)
		}
	}
}
