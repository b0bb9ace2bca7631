package sqlstore

import (
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Nothing names a conversation that was removed, in whatever table: neither its rows nor the words of the search.
func TestDropClosedLeavesNothing(t *testing.T) {
	leavesNothing(t, func(r *rig) (store.Dropped, error) {
		return r.DropClosed(t.Context(), r.site.ID, time.Now().Add(time.Hour).UnixMilli(), 1000)
	})
}

// The same goes for the conversations of an erased contact.
func TestEraseLeavesNothing(t *testing.T) {
	leavesNothing(t, func(r *rig) (store.Dropped, error) {
		if err := r.EraseContact(t.Context(), r.contact.ID); err != nil {
			return store.Dropped{}, err
		}
		return r.EraseMore(t.Context(), 1000)
	})
}

// leavesNothing removes a closed conversation with everything that can belong to one.
func leavesNothing(t *testing.T, drop func(*rig) (store.Dropped, error)) {
	r := newRig(t, Options{})
	lin := r.agent.Actor()
	hook, err := r.CreateWebhook(t.Context(), store.Webhook{URL: "https://shop.example", Secrets: []string{strings.Repeat("s", store.MinSecret)}})
	if err != nil {
		t.Fatal(err)
	}
	opened := r.must(store.Open{Contact: r.contact})
	conv := opened.Conv.ID
	said := r.must(store.Append{Conv: conv, From: r.contact.Actor(), ClientID: "a", Body: "hello bot"})
	r.must(store.BotTurn{Conv: conv, Turn: said.Turn, Say: []store.Say{{Body: "hello"}}})
	r.must(store.Move{Conv: conv, Trigger: store.TakeOver, By: lin})
	r.must(store.Append{Conv: conv, From: lin, ClientID: "b", Body: "I am a person"})
	r.must(store.Tag{Conv: conv, By: lin, Add: []string{"vip"}})
	if err := r.SaveHook(t.Context(), store.HookProgress{Hook: hook.ID, Keep: []store.HookEvent{{OutboxRow: store.OutboxRow{Seq: 1, Conv: conv}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.AddAttachment(t.Context(), store.Attachment{Conv: conv, Uploader: lin, Name: "x", Type: "text/plain", Size: 1, Storage: "s", State: store.FileReady}, store.Quota{}); err != nil {
		t.Fatal(err)
	}
	r.must(store.MakeOffer{Conv: conv, From: lin, To: lin.ID, Note: "for you"})
	r.must(store.Move{Conv: conv, Trigger: store.AgentClose, By: lin})
	if _, err := r.QueueMail(t.Context(), store.Mail{Kind: store.MailTest, To: "a@shop.example", Conv: conv}); err != nil {
		t.Fatal(err)
	}
	tables, err := list(t.Context(), r.cold.db, func(s scanner) (name string, err error) { return name, s.Scan(&name) },
		`SELECT t.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c ON c.name = 'conversation' WHERE t.type = 'table' AND t.name NOT IN ('outbox', 'offer')`)
	if err != nil || len(tables) < 5 {
		t.Fatal(tables, err)
	}
	count := func(query string, args ...any) (n int) {
		t.Helper()
		if err := r.cold.db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, table := range tables {
		if count(`SELECT count(*) FROM `+table+` WHERE conversation = ?`, conv) == 0 {
			t.Errorf("the test says nothing about %s", table)
		}
	}
	if count(`SELECT count(*) FROM offer`) != 0 {
		t.Error("an offer has outlived the chat")
	}
	if count(`SELECT count(*) FROM message_words`) == 0 {
		t.Error("the test says nothing about the search")
	}
	d, err := drop(r)
	if err != nil || d.Conversations != 1 || d.More {
		t.Fatalf("%+v %v", d, err)
	}
	for _, table := range tables {
		if n := count(`SELECT count(*) FROM `+table+` WHERE conversation = ?`, conv); n != 0 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
	if n := count(`SELECT count(*) FROM outbox WHERE conversation = ? AND tags <> ''`, conv); n != 0 {
		t.Errorf("%d rows with tags", n)
	}
	if n := count(`SELECT count(*) FROM message_words`); n != 0 {
		t.Errorf("words of %d messages", n)
	}
}
