package mail

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/store"
)

// present is a customer whom the test connects and lets read.
type present struct {
	online bool
	read   uint64
}

func (p *present) Online(string) bool                               { return p.online }
func (p *present) ReadUpTo(context.Context, string) (uint64, error) { return p.read, nil }

// sealing is a store that ends the collecting of any mail.
type sealing struct {
	store.Store
	upto   uint64
	sealed int
}

func (s *sealing) SealMail(context.Context, string) (uint64, error) { s.sealed++; return s.upto, nil }

// TestAnswersByMail: the mail has what agents have written since its first message, without what the customer has read in
// the chat, and the address of the chat. While the customer is connected, it waits some minutes.
func TestAnswersByMail(t *testing.T) {
	r := newPostRig(t)
	ctx := t.Context()
	site, err := r.db.CreateSite(ctx, store.Site{Key: "demo", Name: "Shop", BotName: "Eddy"})
	if err != nil {
		t.Fatal(err)
	}
	lin, err := r.db.CreateAgent(ctx, store.AgentAccount{Login: "lin", Name: "Lin", Password: "x", Capacity: 5})
	if err != nil {
		t.Fatal(err)
	}
	ann, err := r.db.CreateVisitor(ctx, site, store.Token{1}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	do := func(cmd store.Command) store.Conversation {
		t.Helper()
		done := make(chan store.Outcome, 2)
		r.db.Do(cmd, time.Now().Add(time.Hour), func(out store.Outcome) { done <- out })
		out := <-done
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		return out.Conv
	}
	conv := do(store.Open{Contact: ann, Human: true})
	do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: lin.Actor()})
	say := func(from store.Actor, body string, note bool) uint64 {
		t.Helper()
		return do(store.Append{Conv: conv.ID, From: from, ClientID: uuid.NewString(), Body: body, Note: note}).LastPSeq
	}
	say(lin.Actor(), "before it", false)
	first := say(lin.Actor(), "it is\x1b on its way", false)
	say(lin.Actor(), "a note", true)
	say(ann.Actor(), "a question", false)
	last := say(lin.Actor(), "tomorrow", false)
	db, chats := &sealing{Store: r.db, upto: last}, new(present)
	compose := (&texts{db, "https://desk.example", chats, r.clock.Now}).answers
	m := store.Mail{ID: "1", Kind: store.MailAnswers, To: "ann@example.com", Conv: conv.ID, First: first, Created: r.clock.Now().UnixMilli()}
	want := func(what string, said []string, not ...string) {
		t.Helper()
		l, err := compose(ctx, m)
		l.ID, l.To = "1", m.To
		if err != nil || l.check() != nil {
			t.Fatalf("%s: %v %v", what, err, l.check())
		}
		for _, s := range said {
			if !strings.Contains(l.Body, s) {
				t.Errorf("%s: %q is not in %q", what, s, l.Body)
			}
		}
		for _, s := range append(not, "before it", "a note", "a question") {
			if strings.Contains(l.Body, s) {
				t.Errorf("%s: %q is in %q", what, s, l.Body)
			}
		}
	}
	chats.online = true
	later, early := errors.AsType[*Later](second(compose(ctx, m)))
	if !early || !later.Until.Equal(r.clock.Now().Add(onlineAgain)) || db.sealed > 0 {
		t.Errorf("%+v, sealed %d times", later, db.sealed)
	}
	r.clock.Move(onlineMost)
	want("a page that nobody looks at", []string{"Lin:\nit is on its way\n", "tomorrow", "https://desk.example/chat/demo\n"})
	if db.sealed != 1 {
		t.Errorf("sealed %d times", db.sealed)
	}
	chats.online, m.Upto = false, last-1
	want("a mail of before", []string{"it is on its way"}, "tomorrow")
	m.Upto, chats.read = last, first
	want("half of it read", []string{"tomorrow"}, "it is on its way")
	chats.read = last
	if _, err := compose(ctx, m); !errors.Is(err, ErrNothing) {
		t.Errorf("all of it read: %v", err)
	}
	m.Conv, chats.read = "gone", 0
	if _, err := compose(ctx, m); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a chat that is gone: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
