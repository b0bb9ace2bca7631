package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-eddy/eddy/desk/store/pgtest"
)

// TestPostgresKeepsToIndexes: a statement of the writer and of what pages wait for finds by an index, although the table was
// small when the server planned it, as that of who is connected is after a start. Thousands come in before the next plan.
func TestPostgresKeepsToIndexes(t *testing.T) {
	p, err := newPostgres(&Options{URL: pgtest.Database(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	writer := s.(*pgSession).conn
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	pool, err := p.reader(1, hotReads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	execute(t, writer, `INSERT INTO presence (kind, id, node) VALUES ('customer', '0', 'a')`, `VACUUM ANALYZE presence`)
	err = conn.Raw(func(driver any) error {
		reader := driver.(*stdlib.Conn).Conn()
		for _, c := range []*pgx.Conn{writer, reader} {
			execute(t, c, `PREPARE here (text, text) AS `+postgresDialect.rewrite(sqlWhere))
			for i := range 10 { // then the server keeps the plan
				execute(t, c, fmt.Sprintf(`EXECUTE here ('customer', '%d')`, i))
			}
		}
		execute(t, writer, `INSERT INTO presence (kind, id, node) SELECT 'customer', CAST(n AS text), 'a' FROM generate_series(1, 5000) n`)
		for name, c := range map[string]*pgx.Conn{"writer": writer, "reader": reader} {
			rows, err := c.Query(t.Context(), `EXPLAIN EXECUTE here ('customer', '7')`)
			if err != nil {
				return err
			}
			steps, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			if plan := strings.Join(steps, "\n"); strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "Index") {
				t.Errorf("the %s goes through the whole table:\n%s", name, plan)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func execute(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := c.Exec(context.Background(), s, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(s, err)
		}
	}
}
