package sqlstore

import "testing"

func TestDialects(t *testing.T) {
	for _, c := range []struct{ query, sqlite, postgres string }{
		{`SELECT ?, 'why?' WHERE a = ?`, `SELECT ?, 'why?' WHERE a = ?`, `SELECT $1, 'why?' WHERE a = $2`},
		{`SELECT ?2 WHERE a = ?1 AND b = ?12`, `SELECT ?2 WHERE a = ?1 AND b = ?12`, `SELECT $2 WHERE a = $1 AND b = $12`},
		{`SET a = greatest(least(a, ?), max(b))`, `SET a = max(min(a, ?), max(b))`, `SET a = greatest(least(a, $1), max(b))`},
		{`FROM a INDEXED BY a_b CROSS JOIN c ON c.d = a.d`, `FROM a INDEXED BY a_b CROSS JOIN c ON c.d = a.d`, `FROM a JOIN c ON c.d = a.d`},
		{`IN (SELECT value FROM json_each(?))`, `IN (SELECT value FROM json_each(?))`, `IN (SELECT value FROM jsonb_array_elements_text(CAST($1 AS jsonb)) AS value)`},
	} {
		if got := sqliteDialect.rewrite(c.query); got != c.sqlite {
			t.Errorf("SQLite: %s", got)
		}
		if got := postgresDialect.rewrite(c.query); got != c.postgres {
			t.Errorf("PostgreSQL: %s", got)
		}
	}
}
