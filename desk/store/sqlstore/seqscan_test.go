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
			var compiles string
			if err := c.QueryRow(t.Context(), `SHOW jit`).Scan(&compiles); err != nil || compiles != "off" {
				t.Errorf("the %s compiles: %q, %v", name, compiles, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPostgresCollations: every text is compared by its bytes, but for names that are the same in capitals. A comparison of columns
// with two collations uses no index.
func TestPostgresCollations(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), freshPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	rows, err := conn.Query(t.Context(), `SELECT c.relname || '.' || a.attname || ' ' || l.collname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		JOIN pg_collation l ON l.oid = a.attcollation
		WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind = 'r' AND a.attnum > 0 AND l.collname NOT IN ('C', 'nocase')`)
	if err != nil {
		t.Fatal(err)
	}
	if wrong, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(wrong) > 0 {
		t.Errorf("%q, %v", wrong, err)
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
