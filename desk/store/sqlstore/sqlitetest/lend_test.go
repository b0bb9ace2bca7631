package sqlitetest

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Closing{M: m}) }

// TestLend: the store that one test gives back is the next one's, without its rows and by the next one's clock; one that a test
// has closed is nobody's.
func TestLend(t *testing.T) {
	var first *Lent
	t.Run("first", func(t *testing.T) {
		first = Lend(t, time.Now)
		if _, err := first.CreateSite(t.Context(), store.Site{Key: "demo", Name: "Demo"}); err != nil {
			t.Fatal(err)
		}
		if err := store.Record(t.Context(), first.DB, store.Audit{Action: store.AuditLogin}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("second", func(t *testing.T) {
		then := time.UnixMilli(4711)
		l := Lend(t, func() time.Time { return then })
		if l != first {
			t.Error("another store is lent")
		}
		if _, err := l.Cold().SiteByKey(t.Context(), "demo"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the site of the first test: %v", err)
		}
		if rows, err := l.Cold().Audit(t.Context(), store.AuditQuery{}); err != nil || len(rows) != 0 {
			t.Errorf("audited in the first test: %+v %v", rows, err)
		}
		if err := store.Record(t.Context(), l.DB, store.Audit{Action: store.AuditLogin}); err != nil {
			t.Fatal(err)
		}
		rows, err := l.Cold().Audit(t.Context(), store.AuditQuery{})
		if err != nil || len(rows) != 1 || rows[0].ID != 1 || rows[0].Time != then.UnixMilli() {
			t.Errorf("%+v %v", rows, err)
		}
		if err := l.DB.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("third", func(t *testing.T) {
		if Lend(t, time.Now) == first {
			t.Error("a closed store is lent")
		}
	})
}
