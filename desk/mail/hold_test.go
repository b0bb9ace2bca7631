package mail

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/lease"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestOneOfTwoSends: of two servers on one database one sends. When it ends, the other one goes on, and no mail is sent twice.
func TestOneOfTwoSends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	var dbs []*sqlstore.DB
	var posts []*Post
	sent := make(chan Letter, 100)
	quiet := slog.New(slog.DiscardHandler)
	for range 2 {
		db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path, Wait: time.Hour, BusyTimeout: time.Hour, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		p, err := New(Options{
			Store: db, Settings: Settings{Server: "mail.example:25", From: "a@b.example", PerMinute: MaxPerMinute}, Sender: told(sent), Logger: quiet,
			Hold: lease.Options{Store: db, Life: time.Second, Logger: quiet}.Hold("mail"),
		})
		if err != nil {
			t.Fatal(err)
		}
		dbs, posts = append(dbs, db), append(posts, p)
	}
	got := make(map[string]int)
	round := func(name string) {
		t.Helper()
		for i := range 10 {
			if _, err := dbs[i%2].QueueMail(t.Context(), store.Mail{Kind: store.MailTest, To: fmt.Sprintf("%s%d@shop.example", name, i)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range posts {
			p.Wake()
		}
		for range 10 {
			got[testkit.Receive(t, "a mail", sent).To]++
		}
	}
	posts[0].Start()
	round("first")
	posts[1].Start()
	posts[0].Stop()
	round("second")
	posts[1].Stop()
	if a, b := posts[0].Stats().Sent, posts[1].Stats().Sent; a != 10 || b != 10 {
		t.Errorf("the servers have sent %d and %d mails", a, b)
	}
	for to, n := range got {
		if n != 1 {
			t.Errorf("%s has got %d mails", to, n)
		}
	}
}
