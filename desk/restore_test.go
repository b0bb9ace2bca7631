package desk

import (
	"path/filepath"
	"testing"

	"github.com/go-eddy/eddy/desk/backup"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// A Desk that was restored from a backup lets its clients come back, with the same tokens and logins. Its new identity
// tells them that events they hold may be gone.
func TestRestoredDeskAcceptsItsClients(t *testing.T) {
	s := serve(t, testOptions(t))
	customer, agent := s.customer(), s.agent()
	conv, err := customer.Open(s.ctx, "human")
	s.ok(err)
	s.ok(agent.Take(s.ctx, conv))
	customer.Send(conv, "in the backup")
	s.ok(customer.Flushed(s.ctx))
	before, _ := customer.Welcome()
	to := filepath.Join(t.TempDir(), "backup")
	_, err = backup.Make(s.ctx, backup.Options{DataDir: s.o.DataDir, To: to})
	s.ok(err)
	for _, text := range []string{"lost", "lost, too"} {
		customer.Send(conv, text)
	}
	s.ok(customer.Flushed(s.ctx))
	last := customer.View(conv)

	s.stop()
	_, err = backup.Restore(s.ctx, backup.RestoreOptions{From: to, DataDir: s.o.DataDir, Replace: true})
	s.ok(err)
	s.start()
	for name, c := range map[string]*desktest.Client{"customer": customer, "agent": agent} {
		testkit.Eventually(t, name+" is back", func() bool { _, n := c.Welcome(); return n >= 2 })
		w, _ := c.Welcome()
		if w.Store == before.Store || w.Store == "" {
			t.Errorf("%s: the store is still %q", name, w.Store)
		}
		if len(w.Heads) == 0 || w.Heads[len(w.Heads)-1].ID != conv || w.Heads[len(w.Heads)-1].State != "assigned" {
			t.Errorf("%s: heads %+v", name, w.Heads)
		}
	}
	w, _ := customer.Welcome()
	if got := w.Heads[len(w.Heads)-1].Last; got == 0 || got >= last[len(last)-1].S {
		t.Errorf("the restored conversation ends at %d, the customer has seen %d", got, last[len(last)-1].S)
	}
}
