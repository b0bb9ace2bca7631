package sqlstore

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// What was erased is overwritten in the file, not only unlinked.
func TestErasedIsOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	r := newRig(t, Options{Path: path})
	conv := r.open(true).ID
	body := strings.Repeat("nothing to see here, ", 300) + "swordfish" + strings.Repeat(", nothing to see here", 80)
	r.must(store.Append{Conv: conv, From: r.contact.Actor(), ClientID: "a", Body: body})
	r.must(store.Move{Conv: conv, Trigger: store.CustomerClose, By: r.contact.Actor()})
	there := func() bool {
		t.Helper()
		testkit.Eventually(t, "the file has everything: nobody reads what was before", func() bool {
			var busy, frames, moved int
			err := r.cold.db.QueryRowContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved)
			return err == nil && busy == 0
		})
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(content, []byte("here, swordfish, nothing"))
	}
	if !there() {
		t.Fatal("the test does not find the message")
	}
	if err := r.EraseContact(t.Context(), r.contact.ID); err != nil {
		t.Fatal(err)
	}
	if d, err := r.EraseMore(t.Context(), 100); err != nil || d.Conversations != 1 {
		t.Fatal(d, err)
	}
	if there() {
		t.Error("the message can be read from the file")
	}
}

// The row of an erased contact says nothing, whatever was stored about it, and whatever a bot has learnt meanwhile.
func TestErasedContactIsEmpty(t *testing.T) {
	r := newRig(t, Options{})
	opened := r.must(store.Open{Contact: r.contact})
	turn := r.must(store.Append{Conv: opened.Conv.ID, From: r.contact.Actor(), ClientID: "a", Body: "hello"}).Turn
	r.must(store.Visited{Contact: r.contact.ID, Facts: store.Facts{Page: "https://shop.example/", At: 1}})
	if _, err := r.PatchContact(t.Context(), store.ContactPatch{Contact: r.contact.ID, Name: "Ann", Attributes: map[string]string{"email": "ann@example.com"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.NoteContact(t.Context(), r.contact.ID, "calls on Mondays"); err != nil {
		t.Fatal(err)
	}
	if err := r.SetLocale(t.Context(), r.contact.ID, "de"); err != nil {
		t.Fatal(err)
	}
	if err := r.EraseContact(t.Context(), r.contact.ID); err != nil {
		t.Fatal(err)
	}
	r.must(store.BotTurn{Conv: opened.Conv.ID, Turn: turn, Say: []store.Say{{Body: "late"}}, Attributes: map[string]string{"plan": "gold"}})
	r.must(store.Move{Conv: opened.Conv.ID, Trigger: store.Block, By: r.agent.Actor()})
	if d, err := r.EraseMore(t.Context(), 100); err != nil || d.Conversations != 1 {
		t.Fatal(d, err)
	}
	var got, keys string
	if err := r.cold.db.QueryRowContext(t.Context(), `SELECT concat_ws('|', name, external, verified, locale, attributes, facts, note, erasing), (SELECT count(*) FROM contact_key) FROM contact WHERE id = ?`,
		r.contact.ID).Scan(&got, &keys); err != nil || got != visitorName(r.contact.ID)+"||0||{}|||0" || keys != "0" {
		t.Errorf("%s, %s keys, %v", got, keys, err)
	}
}

// A conversation that an earlier version has left with a contact that was merged goes with the one that it was merged into.
func TestErasedWithWhoWasMerged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	r := newRig(t, Options{Path: path})
	conv, into := r.open(true).ID, r.visitor()
	r.must(store.Move{Conv: conv, Trigger: store.CustomerClose, By: r.contact.Actor()})
	if _, err := r.MergeContacts(t.Context(), r.contact.ID, into.ID); err != nil {
		t.Fatal(err)
	}
	execOn(t, path, `UPDATE conversation SET contact = '`+r.contact.ID+`'`)
	if err := r.EraseContact(t.Context(), into.ID); err != nil {
		t.Fatal(err)
	}
	if d, err := r.EraseMore(t.Context(), 100); err != nil || d.Conversations != 1 {
		t.Error(d, err)
	}
}
