package sqlstore

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

func TestReadersCannotWrite(t *testing.T) {
	r := newRig(t, Options{})
	if _, err := r.hot.db.Exec(`DELETE FROM message`); err == nil {
		t.Fatal("a reader may write")
	}
}

func TestEventPages(t *testing.T) {
	r := newRig(t, Options{})
	conv := r.open(false)
	for range 9 {
		r.must(text(conv.ID, r.contact.Actor(), strings.Repeat("x", 1000)))
	}
	for name, c := range map[string]struct {
		after      uint64
		limit, max int
		want       int
		more       bool
	}{
		"all":           {0, 100, 1 << 20, 10, false},
		"by count":      {0, 4, 1 << 20, 4, true},
		"exact count":   {6, 4, 1 << 20, 4, false},
		"by bytes":      {1, 100, 3500, 3, true},
		"one at least":  {1, 100, 10, 1, true},
		"past the end":  {10, 100, 1 << 20, 0, false},
		"far past":      {1<<64 - 1, 100, 1 << 20, 0, false},
		"last position": {9, 100, 1 << 20, 1, false},
	} {
		events, more, err := r.Hot().Events(t.Context(), conv.ID, store.CustomerSide, c.after, c.limit, c.max)
		if err != nil || len(events) != c.want || more != c.more {
			t.Errorf("%s: %d events, more %v, %v", name, len(events), more, err)
		}
	}
}

func TestAccounts(t *testing.T) {
	now := time.Now()
	r := newRig(t, Options{})
	ctx := t.Context()
	if _, err := r.CreateAgent(ctx, store.AgentAccount{Login: "LIN", Name: "Lin"}); !errors.Is(err, store.ErrExists) {
		t.Errorf("second agent lin: %v", err)
	}
	if a, err := r.Cold().AgentByLogin(ctx, "Lin"); err != nil || a.ID != r.agent.ID {
		t.Errorf("by login: %+v %v", a, err)
	}
	token := store.Token{1, 2, 3}
	if err := r.CreateAgentSession(ctx, token, r.agent.ID, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Cold().AgentSession(ctx, token, now); err != nil || s.Agent.ID != r.agent.ID {
		t.Errorf("session: %+v %v", s, err)
	}
	if _, err := r.Cold().AgentSession(ctx, token, now.Add(2*time.Hour)); !errors.Is(err, store.ErrExpired) {
		t.Errorf("expired session: %v", err)
	}
	if err := r.TouchAgentSession(ctx, token); err != nil {
		t.Error(err)
	}
	if err := r.DeleteAgentSession(ctx, token); err != nil {
		t.Error(err)
	}
	if err := r.DeleteAgentSession(ctx, token); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
	visitor := store.Token{9}
	c, err := r.CreateVisitor(ctx, r.site, visitor, now.Add(-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Hot().ContactByToken(ctx, visitor, now); !errors.Is(err, store.ErrExpired) {
		t.Errorf("expired visitor: %v", err)
	}
	if err := r.ExtendVisitor(ctx, visitor, now.Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if got, err := r.Hot().ContactByToken(ctx, visitor, now); err != nil || got.ID != c.ID || got.Name != c.Name || got.Site != c.Site {
		t.Errorf("extended visitor: %+v %v", got, err)
	}
	if _, err := r.Hot().ContactByToken(ctx, store.Token{42}, now); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown visitor: %v", err)
	}
	if err := r.ExtendVisitor(ctx, store.Token{42}, now); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown visitor: %v", err)
	}
}

// Not even this program can change what the audit log says.
func TestAuditLogIsAppendOnly(t *testing.T) {
	db := open(t, Options{Path: filepath.Join(t.TempDir(), "desk.db")})
	if err := store.Record(t.Context(), db, store.Audit{Action: store.AuditLogin}); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{`UPDATE audit_log SET detail = 'x'`, `DELETE FROM audit_log`, `INSERT OR REPLACE INTO audit_log SELECT id, at, who_kind, who_id, who_name, 'x', target, detail, ip FROM audit_log`} {
		_ = db.write(t.Context(), func(tx *tx) error { return tx.exec(query) })
	}
	rows, err := db.Cold().Audit(t.Context(), store.AuditQuery{})
	if err != nil || len(rows) != 1 || rows[0].Action != store.AuditLogin || rows[0].Detail != "" {
		t.Errorf("%+v, %v", rows, err)
	}
}
