package sqlstore

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// dialect is how one database says what the databases of this package say differently. All other statements are written
// once, in words that rewrite knows.
type dialect struct {
	rewrite func(query string) string
	texts   func(args []any) []any // texts as the database takes them

	begin string
	last  string // reads the last number of the outbox and the clock in microseconds, 0 = this machine's, and keeps other writers away until the end of the transaction

	notify string // tells the processes that listen of a commit, "" = there are none

	// The search. A document is a message; its words are separated by blanks.
	insertWords, insertMany string // of one message, and of tellMany
	dropWords, search       string
	match                   func(terms []string) string // all of them

	overwrite, leave string // before and after what deletes for good, "" = nothing
	whole            string // before what reads whole tables, until the end of the transaction, "" = nothing

	migrations string // directory
	tables     string // counts the tables, and those named schema_version
	versions   string // makes the table schema_version
	elsewhere  string // where to put the data instead of a database of another program
}

const (
	wordsOfFile = `INSERT INTO message_words (rowid, words) VALUES (?, ?)`
	vector      = `(CAST(? AS BIGINT), array_to_tsvector(string_to_array(CAST(? AS TEXT), ' ')))`

	searchHits = `WITH hits AS MATERIALIZED (`
	searchFrom = `)
		SELECT h.doc, m.conversation, m.seq, coalesce(m.pseq, 0), m.id, m.kind, m.sender_kind, m.sender_id, m.sender_name, m.body, m.created,
			c.contact, p.name, c.state, c.site, c.grp, c.last_agent, c.assigned_at, c.opened_at, c.snoozed_until, c.score, ` + tagsColumn + `, ` + sqlAccess + `
		FROM hits h CROSS JOIN message m ON m.doc = h.doc CROSS JOIN conversation c ON c.id = m.conversation CROSS JOIN contact p ON p.id = c.contact
		ORDER BY h.doc DESC`
)

// sqliteDialect: the order of a CROSS JOIN and the index that INDEXED BY names are binding.
var sqliteDialect = dialect{
	rewrite:     strings.NewReplacer("greatest(", "max(", "least(", "min(").Replace,
	texts:       func(args []any) []any { return args },
	begin:       `BEGIN IMMEDIATE`,
	last:        sqlLast + `0` + ofOutbox,
	insertWords: wordsOfFile,
	insertMany:  wordsOfFile + strings.Repeat(`, (?, ?)`, tellMany-1),
	dropWords:   `DELETE FROM message_words WHERE rowid IN (SELECT doc FROM message WHERE conversation = ? AND seq <= ? AND doc IS NOT NULL)`,
	search:      searchHits + `SELECT rowid AS doc FROM message_words WHERE message_words MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT ?` + searchFrom,
	match:       func(terms []string) string { return `"` + strings.Join(terms, `" AND "`) + `"` },
	overwrite:   `PRAGMA secure_delete = ON`,
	leave:       `PRAGMA secure_delete = OFF`,
	migrations:  "migrations/sqlite",
	tables:      `SELECT count(*), coalesce(sum(name = 'schema_version'), 0) FROM sqlite_schema WHERE type = 'table'`,
	versions:    `CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL) STRICT`,
	elsewhere:   "data directory",
}

// postgresDialect leaves the order of joins and the choice of indexes to the planner.
var postgresDialect = dialect{
	rewrite:     postgresWords,
	texts:       postgresTexts,
	begin:       `BEGIN ISOLATION LEVEL READ COMMITTED`,
	last:        sqlLast + `CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)` + ofOutbox + ` FOR UPDATE`,
	notify:      pgNotify,
	insertWords: `INSERT INTO message_words (doc, words) VALUES ` + vector,
	insertMany:  `INSERT INTO message_words (doc, words) VALUES ` + vector + strings.Repeat(`, `+vector, tellMany-1),
	dropWords:   `DELETE FROM message_words WHERE doc IN (SELECT doc FROM message WHERE conversation = ? AND seq <= ? AND doc IS NOT NULL)`,
	search:      searchHits + `SELECT doc FROM message_words WHERE words @@ CAST(CAST(? AS TEXT) AS tsquery) AND doc < ? ORDER BY doc DESC LIMIT ?` + searchFrom,
	match:       func(terms []string) string { return `'` + strings.Join(terms, `' & '`) + `'` },
	whole:       `SET LOCAL ` + pgScans + ` = on`,
	migrations:  "migrations/postgres",
	tables: `SELECT count(*), count(CASE table_name WHEN 'schema_version' THEN 1 END) FROM information_schema.tables
		WHERE table_schema = current_schema()`,
	versions:  `CREATE TABLE IF NOT EXISTS schema_version (version bigint PRIMARY KEY, applied bigint NOT NULL)`,
	elsewhere: "database",
}

var (
	indexedBy      = regexp.MustCompile(` INDEXED BY \w+`)
	postgresPhrase = strings.NewReplacer("CROSS JOIN", "JOIN", "json_each(?)", "jsonb_array_elements_text(CAST(? AS jsonb)) AS value")
)

func postgresWords(query string) string {
	return numbered(postgresPhrase.Replace(indexedBy.ReplaceAllString(query, "")))
}

// postgresTexts replaces what PostgreSQL takes in no text: the character 0, and bytes that are no UTF-8.
func postgresTexts(args []any) []any {
	for i, a := range args {
		s, ok := a.(string)
		if !ok {
			v := reflect.ValueOf(a)
			if v.Kind() != reflect.String {
				continue
			}
			s = v.String()
		}
		if clean := cleanText(s); clean != s {
			args = slices.Clone(args)
			args[i] = clean
		}
	}
	return args
}

func cleanText(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") {
		return s
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
}

// numbered returns a statement with the parameters $1, $2 in place of ?, or of ?1 and ?2.
func numbered(query string) string {
	var b strings.Builder
	quoted, n := false, 0
	for i := range len(query) {
		c := query[i]
		if c == '\'' {
			quoted = !quoted
		}
		if c != '?' || quoted {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('$')
		if i+1 == len(query) || query[i+1] < '0' || query[i+1] > '9' {
			n++
			b.WriteString(strconv.Itoa(n))
		}
	}
	return b.String()
}
