// Package pgsyntax checks, with PostgreSQL's own parser, what Desk says to PostgreSQL: which statements a distributed database
// that speaks the same protocol takes, and which it does not.
package pgsyntax

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	pg "github.com/pganalyze/pg_query_go/v5"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/desk/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Closing{M: m}.Run()) }

// TestStatements runs the conformance suite of the store on PostgreSQL and looks at every statement that it has said, the migrations
// among them. Each is one that PostgreSQL's grammar knows; those that a distributed database does not take are those that
// docs/desk-scale.md lists, with what they need.
func TestStatements(t *testing.T) {
	p := newTap(t, pgtest.Lasting(t, nil))
	t.Run("suite", func(t *testing.T) { say(t, p) })
	said := p.all()
	if len(said) < 300 {
		t.Fatalf("%d statements: the suite has run only a part", len(said))
	}
	needs := make(map[string]map[string]bool) // by feature: statements
	for _, query := range said {
		tree, err := pg.Parse(query)
		if err != nil {
			t.Errorf("%v: %.200s", err, query)
			continue
		}
		for _, one := range tree.GetStmts() {
			from := int(one.GetStmtLocation())
			text := query[from:]
			if n := int(one.GetStmtLen()); n > 0 {
				text = text[:n]
			}
			for f := range featuresOf(one.ProtoReflect()) {
				if needs[f] == nil {
					needs[f] = make(map[string]bool)
				}
				needs[f][nameOf(text)] = true
			}
		}
	}
	listed := tableOfPage(t)
	for _, d := range databases {
		for feature, reason := range d.refuses {
			for name := range needs[feature] {
				if listed[d.name+" "+name] != reason {
					t.Errorf("the page does not list what %s does not take: | `%s` | %s | %s |", d.name, name, d.name, reason)
				}
				delete(listed, d.name+" "+name)
			}
			if len(needs[feature]) == 0 {
				t.Errorf("%s does not take %s, which no statement needs any more", d.name, feature)
			}
		}
	}
	for row := range listed {
		t.Errorf("the page lists %s, which is said no more, or taken", row)
	}
	for _, f := range slices.Sorted(maps.Keys(needs)) {
		t.Logf("%s: %d statements", f, len(needs[f]))
	}
	checkFeatures(t, needs)
}

// databases are those whose documentation says that they do not take something that Desk says: by feature, with the reason.
var databases = []struct {
	name    string
	refuses map[string]string
}{
	{"CockroachDB", map[string]string{
		"LISTEN":                               "no notifications",
		"function pg_notify":                   "no notifications",
		"CREATE COLLATION":                     "no collations of one's own",
		"function pg_advisory_lock":            "taken, but locks nothing",
		"function pg_try_advisory_lock":        "taken, but locks nothing",
		"function pg_try_advisory_lock_shared": "taken, but locks nothing",
	}},
	{"YugabyteDB", map[string]string{
		"LISTEN":             "early access from v2025.2.3 on, off by default",
		"function pg_notify": "early access from v2025.2.3 on, off by default",
		"CREATE COLLATION":   "no collation that is not deterministic",
	}},
}

// say has the store say everything that it can.
func say(t *testing.T, p *tap) {
	fresh := func(t testing.TB) string {
		return p.through(t.(*testing.T), pgtest.Database(t, func(url string) error { return sqlstore.Blank(p.through(t.(*testing.T), url)) }))
	}
	storetest.Run(t, storetest.Backend{
		New: fresh,
		Open: func(ctx context.Context, place string, now func() time.Time) (store.Store, error) {
			return sqlstore.Open(ctx, sqlstore.Options{URL: place, Mail: true, Now: now, Readers: 2, Several: true})
		},
		Settle:    func(ctx context.Context, s store.Store) error { return s.(*sqlstore.DB).PackDays(ctx) },
		Rounds:    1,
		Customers: 20,
		Quick:     true,
	})
	place := fresh(t)
	if _, err := sqlstore.InspectPostgres(t.Context(), place); err != nil {
		t.Error(err)
	}
	alone, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: place, Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := alone.Close(); err != nil {
		t.Error(err)
	}
}

// featuresOf returns what a statement needs of a database beyond the plainest SQL.
func featuresOf(m protoreflect.Message) map[string]bool {
	found := make(map[string]bool)
	walk(m, func(m protoreflect.Message) {
		if f := featureOf(m); f != "" {
			found[f] = true
		}
	})
	return found
}

// featureOf returns the feature that one node of a statement is, "" for none of its own.
func featureOf(m protoreflect.Message) string {
	switch n := m.Interface().(type) {
	case *pg.FuncCall:
		names := n.GetFuncname()
		return "function " + names[len(names)-1].GetString_().GetSval()
	case *pg.DefineStmt:
		if n.GetKind() == pg.ObjectType_OBJECT_COLLATION {
			return "CREATE COLLATION"
		}
		return "CREATE " + n.GetKind().String()
	case *pg.CollateClause:
		names := n.GetCollname()
		return "COLLATE " + names[len(names)-1].GetString_().GetSval()
	case *pg.IndexStmt:
		if n.GetAccessMethod() != "btree" {
			return "index " + n.GetAccessMethod()
		}
		if n.GetWhereClause() != nil {
			return "partial index"
		}
	case *pg.TypeName:
		names := n.GetNames()
		return "type " + names[len(names)-1].GetString_().GetSval()
	case *pg.Constraint:
		if n.GetContype() == pg.ConstrType_CONSTR_IDENTITY {
			return "identity"
		}
	case *pg.InsertStmt:
		return returning(n.GetReturningList())
	case *pg.UpdateStmt:
		return returning(n.GetReturningList())
	case *pg.DeleteStmt:
		return returning(n.GetReturningList())
	case *pg.TransactionStmt:
		return strings.TrimPrefix(n.GetKind().String(), "TRANS_STMT_")
	case *pg.ListenStmt:
		return "LISTEN"
	case *pg.LockingClause:
		return "FOR UPDATE"
	case *pg.OnConflictClause:
		return "ON CONFLICT"
	case *pg.CommonTableExpr:
		if n.GetCtematerialized() == pg.CTEMaterialize_CTEMaterializeAlways {
			return "MATERIALIZED"
		}
	case *pg.CreateTrigStmt:
		return "trigger"
	case *pg.CreateFunctionStmt:
		return "CREATE FUNCTION"
	}
	return ""
}

func returning(list []*pg.Node) string {
	if len(list) > 0 {
		return "RETURNING"
	}
	return ""
}

// walk calls visit for a message and all messages in it.
func walk(m protoreflect.Message, visit func(protoreflect.Message)) {
	visit(m)
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			for i := range v.List().Len() {
				walk(v.List().Get(i).Message(), visit)
			}
		default:
			walk(v.Message(), visit)
		}
		return true
	})
}

var (
	blanks   = regexp.MustCompile(`\s+`)
	comments = regexp.MustCompile(`--[^\n]*`)
)

// nameOf names a statement by its first words.
func nameOf(text string) string {
	text = strings.TrimSpace(blanks.ReplaceAllString(comments.ReplaceAllString(text, ""), " "))
	if len(text) > 60 {
		text = text[:60]
	}
	return strings.TrimSpace(text)
}

const page = "../../docs/desk-scale.md"

// tableOfPage returns the reasons that the page gives, by database and statement.
func tableOfPage(t *testing.T) map[string]string {
	t.Helper()
	listed := make(map[string]string)
	for _, cells := range rowsOf(t, "| statement | database | why |", 3) {
		listed[cells[1]+" "+strings.Trim(cells[0], "`")] = cells[2]
	}
	return listed
}

// rowsOf returns the rows of the table under a head.
func rowsOf(t *testing.T, head string, columns int) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), head+"\n")
	if !ok {
		t.Fatalf("%s has no table %s", page, head)
	}
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		var cells []string
		for _, c := range strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ") {
			cells = append(cells, strings.TrimSpace(c))
		}
		if len(cells) != columns || strings.HasPrefix(cells[0], "---") || strings.HasPrefix(line, "|---") {
			continue
		}
		rows = append(rows, cells)
	}
	return rows
}

// checkFeatures holds the page's list of what is needed against what the statements need.
func checkFeatures(t *testing.T, needs map[string]map[string]bool) {
	t.Helper()
	listed := make(map[string]bool)
	for _, cells := range rowsOf(t, "| needed | what it is for | without it |", 3) {
		for name := range strings.SplitSeq(cells[0], ", ") {
			name = strings.Trim(name, "`")
			listed[name] = true
			if len(needs[name]) == 0 {
				t.Errorf("the page says that %s is needed, which no statement needs", name)
			}
		}
	}
	for f, statements := range needs {
		if !listed[f] && !slices.Contains(plain, f) {
			t.Errorf("the page does not say that %d statements need %s", len(statements), f)
		}
	}
}

// plain is what every database has that speaks PostgreSQL's protocol.
var plain = []string{
	"BEGIN", "COMMIT", "ROLLBACK", "RELEASE", "ROLLBACK_TO",
	"type bool", "type bytea", "type float8", "type int4", "type int8", "type text", "type icu", "type trigger",
	"function count", "function sum", "function max", "function min", "function lower", "function substr", "function extract", "function like_escape",
	"function string_agg", "function string_to_array", "function current_database", "function current_schema", "function current_setting", "function clock_timestamp",
}
