package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
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
		execOn(t, path, `PRAGMA wal_checkpoint(TRUNCATE)`)
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
