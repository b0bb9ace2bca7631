package desk

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
)

// invariants are statements about the tables, by what is wrong where one finds something. They hold at any time.
var invariants = map[string]string{
	"two owners at once": `SELECT conversation FROM assignment WHERE until = 0 GROUP BY conversation HAVING count(*) > 1`,
	"an owner before the last one has gone": `SELECT conversation FROM (SELECT conversation, until, lead(since) OVER (PARTITION BY conversation ORDER BY epoch) AS next FROM assignment) a
		WHERE next IS NOT NULL AND (until = 0 OR until > next)`,
	"an owner without an assignment, or the other way round": `SELECT c.id FROM conversation c LEFT JOIN assignment a ON a.conversation = c.id AND a.until = 0
		WHERE (c.state = 'assigned') <> (a.agent IS NOT NULL) OR a.agent <> c.owner_id`,
	"an agent with more chats than places": `SELECT s.agent FROM agent_state s JOIN agent a ON a.id = s.agent WHERE s.active > a.capacity`,
	"a wrong number of chats": `SELECT s.agent FROM agent_state s
		WHERE s.active <> (SELECT count(*) FROM conversation c WHERE c.state = 'assigned' AND c.owner_id = s.agent)`,
	"a gap in the numbers of a chat": `SELECT c.id FROM conversation c JOIN (SELECT conversation, count(*) AS n, max(seq) AS last, count(pseq) AS p, coalesce(max(pseq), 0) AS plast
		FROM message GROUP BY conversation) m ON m.conversation = c.id WHERE m.n <> m.last OR m.last <> c.last_seq OR m.p <> m.plast OR m.plast <> c.last_pseq`,
	"a message that is there twice": `SELECT conversation FROM message WHERE client_id IS NOT NULL GROUP BY conversation, sender_kind, sender_id, client_id HAVING count(*) > 1`,
	"a message of an owner that was none any more": `SELECT conversation FROM (SELECT conversation, epoch, lag(epoch) OVER (PARTITION BY conversation ORDER BY seq) AS before FROM message) m
		WHERE epoch < before`,
	"a gap in the feed":                       `SELECT CAST(seq AS text) FROM (SELECT seq, lag(seq) OVER (ORDER BY seq) AS before FROM outbox) o WHERE seq <> before + 1`,
	"a feed that ends before its last number": `SELECT value FROM setting WHERE key = 'outbox_last' AND CAST(value AS bigint) <> (SELECT max(seq) FROM outbox)`,
	"a feed that is not in the order of a chat": `SELECT conversation FROM (SELECT conversation, event, lag(event) OVER (PARTITION BY conversation ORDER BY seq) AS before
		FROM outbox WHERE event > 0) o WHERE event <= before`,
}

// asker is a database or a transaction.
type asker interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// broken returns what is wrong in the tables.
func broken(ctx context.Context, db asker) (wrong []string, err error) {
	for what, query := range invariants {
		var n int
		var first sql.NullString
		if err := db.QueryRowContext(ctx, `SELECT count(*), min(what) FROM (`+query+`) w (what)`).Scan(&n, &first); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %d times, as in %s", what, n, first.String))
		}
	}
	return wrong, nil
}

// checkTables waits until the database answers, and fails the test if something is wrong there.
func checkTables(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var wrong []string
	testkit.Eventually(t, "the database to answer", func() bool {
		wrong, err = broken(ctx, db)
		return err == nil || ctx.Err() != nil
	})
	if err != nil || len(wrong) > 0 {
		t.Errorf("%q, %v", wrong, err)
	}
}

// rivals are two agents with room for one chat each, who are given none. At each meet they take the same two chats from each
// other, and give them back.
type rivals struct {
	chats         []string
	turns         []chan struct{} // one of each agent
	took, refused atomic.Int64
	cancel        func()
	done          sync.WaitGroup
}

const rivalTakes = 3 // of each chat at one meet

func startRivals(ctx context.Context, t *testing.T, base func() string, url string) *rivals {
	t.Helper()
	r := &rivals{}
	ctx, r.cancel = context.WithCancel(ctx)
	web := desktest.NewWeb(base)
	t.Cleanup(web.CloseIdle)
	for range 2 {
		c := web.Customer("demo")
		t.Cleanup(c.Close)
		conv, err := c.Open(ctx, "human")
		if err != nil {
			t.Fatal(err)
		}
		r.chats = append(r.chats, conv)
	}
	for i := range 2 {
		login := fmt.Sprint("rival", i)
		out, errs, code := cmdtest.Run(t, "desk", "user", "add", login, "--capacity", "1", "--chats=false", "--data", t.TempDir(), "--store", url)
		said := regexp.MustCompile(`password\s+(\S+)`).FindStringSubmatch(out)
		if code != 0 || said == nil {
			t.Fatalf("exit code %d, %q, %q", code, out, errs)
		}
		own := desktest.NewWeb(base) // a browser has one login
		t.Cleanup(own.CloseIdle)
		agent := own.Agent(login, said[1])
		t.Cleanup(agent.Close)
		turns := make(chan struct{}, 1)
		r.turns = append(r.turns, turns)
		r.done.Go(func() {
			for {
				select {
				case <-turns:
					r.turn(ctx, agent)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return r
}

// meet lets each of them begin, unless it still waits for answers.
func (r *rivals) meet() {
	for _, turn := range r.turns {
		select {
		case turn <- struct{}{}:
		default:
		}
	}
}

func (r *rivals) turn(ctx context.Context, agent *desktest.Client) {
	for n := range 2 * rivalTakes {
		for _, conv := range r.chats { // the second one is one too many
			f, err := agent.Do(ctx, "take", conv, proto.Take{})
			switch {
			case err != nil:
			case f.T == "ok":
				r.took.Add(1)
			default:
				r.refused.Add(1)
			}
		}
		_, _ = agent.Do(ctx, "return", r.chats[n%2], proto.Return{}) // perhaps it has another one, or none
	}
}

func (r *rivals) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	r.done.Wait()
	t.Logf("two agents took %d chats from each other, and were refused %d", r.took.Load(), r.refused.Load())
	if r.took.Load() == 0 || r.refused.Load() == 0 {
		t.Error("they did not meet")
	}
}

// TestTablesAreChecked: whatever breaks an invariant is found.
func TestTablesAreChecked(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	url, _, _ := moved(t)
	s, err := sqlstore.Open(ctx, sqlstore.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	sites, err := s.Hot().Sites(ctx)
	if err != nil || len(sites) == 0 {
		t.Fatal(sites, err)
	}
	visitor, err := s.CreateVisitor(ctx, sites[0], store.Token{1}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := s.CreateAgent(ctx, store.AgentAccount{Login: "one", Name: "One", Password: "x", Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	do := func(cmd store.Command) store.Outcome {
		t.Helper()
		result := make(chan store.Outcome, 2)
		s.Do(cmd, time.Now().Add(testkit.Patience), func(out store.Outcome) { result <- out })
		out := <-result
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		return out
	}
	conv := do(store.Open{Contact: visitor, Human: true}).Conv.ID
	for i := range 3 {
		do(store.Append{Conv: conv, From: visitor.Actor(), ClientID: fmt.Sprint(i), Body: "x"})
	}
	for range 2 {
		do(store.Move{Conv: conv, Trigger: store.TakeOver, By: agent.Actor()})
		do(store.Append{Conv: conv, From: agent.Actor(), ClientID: "one", Body: "x"})
		do(store.Move{Conv: conv, Trigger: store.Return, By: agent.Actor()})
	}
	do(store.Move{Conv: conv, Trigger: store.TakeOver, By: agent.Actor()})
	checkTables(ctx, t, url)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	found := make(map[string]bool)
	for _, damage := range []string{
		`UPDATE assignment SET until = 0`,
		`UPDATE assignment SET until = until + 3600000 WHERE until > 0`,
		`UPDATE conversation SET owner_id = 'nobody'`,
		`UPDATE agent SET capacity = 0`,
		`UPDATE agent_state SET active = active + 1`,
		`DELETE FROM message WHERE seq = 2`,
		`UPDATE message SET client_id = 'one', sender_kind = 'agent', sender_id = 'one' WHERE seq IN (2, 3)`,
		`UPDATE message SET epoch = 9 WHERE seq = 2`,
		`DELETE FROM outbox WHERE event = 2`,
		`DELETE FROM outbox WHERE seq = (SELECT max(seq) FROM outbox)`,
		`UPDATE outbox SET event = 1 WHERE event = 3`,
	} {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.ExecContext(ctx, `DROP INDEX message_client, assignment_open`)
		if err == nil {
			_, err = tx.ExecContext(ctx, damage)
		}
		if err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
		wrong, err := broken(ctx, tx)
		if err != nil || len(wrong) == 0 {
			t.Errorf("%s is not found: %v", damage, err)
		}
		for _, w := range wrong {
			what, _, _ := strings.Cut(w, ": ")
			found[what] = true
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	for what := range invariants {
		if !found[what] {
			t.Errorf("nothing breaks %q", what)
		}
	}
}
