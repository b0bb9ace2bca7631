package desk

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestNodesDiskFull: the disk of the database that three servers have is full. Messages are refused as "try again", everything that is stored can be read, and each server says why
// it is not ready. With room again they go on by themselves, and every message is stored once, as TestKillLosesNothing has it.
func TestNodesDiskFull(t *testing.T) {
	t.Parallel()
	t.Run("disk", func(t *testing.T) {
		t.Parallel()
		d := pgtest.OnDisk(t, 64<<20)
		testDiskFull(t, d.URL, d.Fill, d.Free)
	})
	t.Run("refused", func(t *testing.T) { // where no disk may be mounted: every table refuses to grow
		t.Parallel()
		url := pgtest.Database(t, nil)
		testDiskFull(t, url, func(t testing.TB) {
			change(t, url, `CREATE FUNCTION no_room() RETURNS trigger AS $$ BEGIN
				RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
			END $$ LANGUAGE plpgsql`, `SELECT format('CREATE TRIGGER no_room BEFORE INSERT ON %I FOR EACH STATEMENT EXECUTE FUNCTION no_room()', table_name)
				FROM information_schema.tables WHERE table_schema = current_schema()`)
		}, func(t testing.TB) {
			change(t, url, `SELECT 1`, `SELECT format('DROP TRIGGER no_room ON %I', event_object_table) FROM information_schema.triggers WHERE trigger_name = 'no_room'`)
		})
	})
}

// change runs a statement on a database, and then those that the query returns.
func change(t testing.TB, url, statement, query string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	run := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run(statement)
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	for _, one := range all {
		run(one)
	}
}

func testDiskFull(t *testing.T, url string, fill, free func(testing.TB)) {
	const each, taken, open = 2, 1, 4
	ctx := testkit.Context(t)
	data, account := movedTo(t, url)
	c := startNodes(t, 3, "--store", url, "--files", filepath.Join(data, "files"))
	web := desktest.NewWeb(c.base)
	defer web.CloseIdle()
	agent := web.Agent(account[1], account[2])
	defer agent.Close()
	customers, all := c.gather(ctx, agent, each, taken)
	load := func() {
		for _, s := range all {
			s.fill(open)
		}
	}
	load()
	waitAcks(ctx, t, all, len(all))
	fill(t)
	for i, here := range customers {
		refusedFor(ctx, t, c, i, here[0], load)
	}
	free(t)
	load()
	for _, s := range all {
		if err := s.client.Flushed(ctx); err != nil {
			t.Fatal(err)
		}
	}
	c.ready(ctx)
	checkLogs(ctx, t, web, account, all)
	checkTables(ctx, t, url)
	for i := range c.all {
		c.end(i).Stop()
	}
}

// refusedFor waits until a customer of a server is refused, and the server says that the disk is full. What is stored can be read meanwhile.
func refusedFor(ctx context.Context, t *testing.T, c *nodes, i int, s *sender, load func()) {
	t.Helper()
	web := c.at(i)
	defer web.CloseIdle()
	refused, full := false, false
	testkit.Eventually(t, "messages to be refused because the disk is full", func() bool {
		load()
		for _, e := range s.client.Refusals() {
			if e.Code == proto.CodeUnavailable && e.RetryMS > 0 {
				refused = true
			}
		}
		ready, why := isReady(ctx, web)
		full = full || !ready && strings.Contains(why, "the disk of the server is full")
		return refused && full
	})
	if f, err := s.client.Do(ctx, "sync", s.conv, proto.Sync{}); err != nil || f.T != "ok" {
		t.Errorf("server %d: what is stored cannot be read: %v %s", i, err, f.D)
	}
}
