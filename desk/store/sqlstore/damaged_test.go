package sqlstore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// TestFailedReadsAreNotReady: while the last read of a kind failed, because the file is damaged, the store is not ready and says why.
// The next read that succeeds, or a while without reads, makes it ready again.
func TestFailedReadsAreNotReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	r := newRig(t, Options{Path: path})
	conv := r.open(false)
	for i := range 300 {
		r.must(text(conv.ID, r.contact.Actor(), strings.Repeat(fmt.Sprint("word ", i, " "), 100)))
	}
	if err := r.DB.Close(); err != nil {
		t.Fatal(err)
	}
	damageText(t, path, "word 150 ")
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), Options{Path: path, InOrder: true}) // does not read all of it
		if err != nil {
			t.Fatal(err)
		}
		events := func(r store.Reader) error {
			_, _, err := r.Events(t.Context(), conv.ID, store.StaffSide, 0, 1000, 1<<30)
			return err
		}
		fine := func(r store.Reader) {
			t.Helper()
			if _, err := r.Contact(t.Context(), "nobody"); err != store.ErrNotFound {
				t.Fatal(err)
			}
		}
		ready := func(when string, want bool) {
			t.Helper()
			err := db.Ready()
			if (err == nil) != want || err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(err.Error(), "backup")) {
				t.Errorf("%s: %v", when, err)
			}
		}
		fine(db.Hot())
		ready("before", true)
		for name, r := range map[string]store.Reader{"hot": db.Hot(), "cold": db.Cold()} {
			if err := events(r); err == nil {
				t.Fatal("the damage is not read")
			}
			ready(name+" read failed", false)
			fine(map[string]store.Reader{"hot": db.Cold(), "cold": db.Hot()}[name])
			ready(name+" read failed, the other did not", false)
			fine(r)
			ready(name+" read succeeded", true)
		}
		_ = events(db.back)
		ready("a report failed", true)
		_ = events(db.Cold())
		ready("failed again", false)
		time.Sleep(failureCounts)
		ready("after a while", true)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// damageText overwrites the page of the file that holds a text.
func damageText(t *testing.T, path, text string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(content, []byte(text))
	if at < 0 {
		t.Fatalf("%q is not in the file", text)
	}
	at -= at % 4096
	copy(content[at:at+4096], bytes.Repeat([]byte("not a page "), 400))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
