package sqlstore

import (
	"crypto/rand"
	"database/sql"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// lives is a database whose clock stands still between two commands.
type lives struct {
	*DB
	t      *testing.T
	o      Options
	site   store.Site
	agents [2]store.Actor
	now    time.Time
}

func newLives(t *testing.T) *lives {
	l := &lives{t: t, now: time.Now()}
	l.o = Options{Path: filepath.Join(t.TempDir(), "desk.db"), Now: func() time.Time { return l.now }}
	l.DB = open(t, l.o)
	var err error
	if l.site, err = l.CreateSite(t.Context(), store.Site{Key: "demo", Name: "Demo", BotName: "Eddy"}); err != nil {
		t.Fatal(err)
	}
	for i, login := range []string{"lin", "moe"} {
		a, err := l.CreateAgent(t.Context(), store.AgentAccount{Login: login, Name: login, Password: "x", Capacity: 10})
		if err != nil {
			t.Fatal(err)
		}
		l.agents[i] = a.Actor()
	}
	return l
}

func (l *lives) do(cmd store.Command) store.Outcome {
	l.t.Helper()
	out := doOn(l.DB, cmd)
	if out.Err != nil {
		l.t.Fatalf("%+v: %v", cmd, out.Err)
	}
	l.now = l.now.Add(7 * time.Minute)
	return out
}

// begin opens a conversation in which the customer says a word, and may pass it on to people.
func (l *lives) begin(word string, human, pass bool) (conv string, customer store.Actor) {
	l.t.Helper()
	var token store.Token
	_, _ = rand.Read(token[:])
	c, err := l.CreateVisitor(l.t.Context(), l.site, token, l.now.Add(time.Hour))
	if err != nil {
		l.t.Fatal(err)
	}
	conv = doOn(l.DB, store.Open{Contact: c, Human: human}).Conv.ID // counted at the same time as its word
	said := l.do(text(conv, c.Actor(), word))
	if pass {
		l.do(store.BotTurn{Conv: conv, Turn: said.Turn, Handoff: true})
	}
	return conv, c.Actor()
}

// live makes everything happen that reports count.
func (l *lives) live(word string) {
	l.t.Helper()
	system, lin, moe := store.Actor{Kind: store.System}, l.agents[0], l.agents[1]
	conv, _ := l.begin(word, true, false)
	l.do(store.Move{Conv: conv, Trigger: store.TakeOver, By: moe})
	l.do(store.Move{Conv: conv, Trigger: store.AgentClose, By: moe})
	conv, _ = l.begin(word, false, false)
	l.do(store.Move{Conv: conv, Trigger: store.Idle, By: system})
	conv, _ = l.begin(word, false, true)
	l.do(store.Move{Conv: conv, Trigger: store.Abandon, By: system})
	conv, customer := l.begin(word, false, true)
	l.do(store.Move{Conv: conv, Trigger: store.TakeOver, By: lin})
	l.do(text(conv, lin, "hello"))
	l.do(store.Move{Conv: conv, Trigger: store.TransferAgent, By: lin, To: moe.ID})
	l.do(store.Move{Conv: conv, Trigger: store.Return, By: moe})
	l.do(store.Move{Conv: conv, Trigger: store.TakeOver, By: lin})
	l.do(store.Move{Conv: conv, Trigger: store.AgentClose, By: lin})
	l.do(store.Move{Conv: conv, Trigger: store.ReopenToQueue, By: lin})
	l.do(store.Move{Conv: conv, Trigger: store.TakeOver, By: moe})
	l.do(store.Move{Conv: conv, Trigger: store.CustomerClose, By: customer})
	l.do(store.Rate{Conv: conv, By: customer, Score: 4})
}

func (l *lives) report() []store.ReportRow {
	l.t.Helper()
	rows, err := l.Background().Report(l.t.Context(), store.ReportQuery{By: store.ByAgent, From: l.now.Add(-24 * time.Hour).UnixMilli(), To: l.now.Add(time.Hour).UnixMilli()})
	if err != nil {
		l.t.Fatal(err)
	}
	return rows
}

// The reports of a database of version 3 lose what they have counted of conversations without an action of their customer,
// and nothing else.
func TestMigrateForgetsSilentConversations(t *testing.T) {
	l := newLives(t)
	l.live("a word")
	want := l.report()
	l.live("silence")
	if both := l.report(); reflect.DeepEqual(both, want) || len(want) != 3 {
		t.Fatalf("nothing was counted: %+v", both)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", l.o.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{ // as version 6 has it, and without the word of some customers
		`DROP TRIGGER rollup_15m_added`, `DROP TRIGGER rollup_15m_changed`, `DROP TRIGGER rollup_15m_removed`,
		`DROP TRIGGER rollup_tag_15m_added`, `DROP TRIGGER rollup_tag_15m_changed`, `DROP TRIGGER rollup_tag_15m_removed`, `DROP TABLE rollup_day`, `DROP TABLE rollup_tag_day`,
		`DELETE FROM message WHERE body = 'silence'`, `ALTER TABLE conversation DROP COLUMN acted_at`,
		`DROP TABLE hook_event`, `DROP TABLE webhook`, `DELETE FROM setting WHERE key = 'outbox_floor'`,
		`DROP INDEX conversation_deferred`, `ALTER TABLE conversation DROP COLUMN reply_to`,
		`DROP TABLE bot_usage`, `DROP INDEX conversation_agent`, `DROP INDEX conversation_tag_opened`, `ALTER TABLE conversation_tag DROP COLUMN opened`,
		`CREATE INDEX conversation_tag_name ON conversation_tag (tag, conversation)`,
		`DROP INDEX conversation_rated`, `DROP TABLE counted`, `DROP TABLE rollup_tag_15m`, `DROP TABLE rollup_gone`, `DROP TABLE mail`, `DROP TABLE password_reset`, `ALTER TABLE agent DROP COLUMN email`,
		`DELETE FROM rollup_15m WHERE measure = 'rated'`, `DELETE FROM schema_version WHERE version >= 7`, `DELETE FROM setting WHERE key = 'outbox_last'`, `DROP TABLE spent_ticket`, `DROP TABLE lease`, `DROP TABLE node`, `DROP TABLE offer`, `DROP TABLE spent`, `DROP TABLE presence`, `ALTER TABLE bot_turn DROP COLUMN node`,
		`DROP TABLE push_subscription`, `DROP TABLE contact_value`, `DROP TABLE own_field`, `DROP TABLE agent_filter`, `DROP TABLE agent_factor`, `DROP TABLE agent_recovery`, `DROP TABLE invitation`, `DROP TABLE agent_identity`, `DROP TABLE site_logo`,
		`DROP INDEX conversation_snoozed`, `ALTER TABLE conversation DROP COLUMN snoozed_until`,
		`ALTER TABLE conversation DROP COLUMN told_warned`, `ALTER TABLE conversation DROP COLUMN told_missed`,
		`DROP INDEX conversation_queue`, `DROP INDEX conversation_behind`, `CREATE INDEX conversation_queue ON conversation (priority, queued_at, id) WHERE state = 'queued'`,
		`ALTER TABLE conversation DROP COLUMN skills`, `ALTER TABLE conversation DROP COLUMN relaxed`, `ALTER TABLE agent DROP COLUMN skills`, `ALTER TABLE agent DROP COLUMN languages`,
		`DROP TRIGGER contact_key_new`, `DROP TRIGGER contact_key_changed`, `DROP TABLE contact_key`, `DROP INDEX contact_erasing`, `DROP INDEX contact_merged`,
		`DROP INDEX contact_token_contact`, `ALTER TABLE contact DROP COLUMN erased`, `ALTER TABLE contact DROP COLUMN erasing`, `ALTER TABLE contact DROP COLUMN facts`,
		`ALTER TABLE contact DROP COLUMN note`, `ALTER TABLE contact DROP COLUMN merged`,
	} {
		if _, err := raw.ExecContext(t.Context(), query); err != nil {
			t.Fatal(query, err)
		}
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	l.DB = open(t, l.o)
	if got := l.report(); !reflect.DeepEqual(got, want) {
		t.Errorf("the reports have\n%+v, want\n%+v", got, want)
	}
	var acted, bad int
	if err := l.hot.db.QueryRowContext(t.Context(), `SELECT sum(acted_at > 0), (SELECT count(*) FROM rollup_15m WHERE n <= 0) FROM conversation`).Scan(&acted, &bad); err != nil || acted != 4 || bad != 0 {
		t.Errorf("%d conversations count, %d empty counts, %v", acted, bad, err)
	}
}
