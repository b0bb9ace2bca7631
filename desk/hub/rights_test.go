package hub

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// mayUse is what the table of commands has to say, written down a second time: c customer, a agent, s supervisor,
// m administrator, r auditor. A new command has to be added here, too.
func mayUse() map[string]string {
	return map[string]string{
		"conv.open": "c", "conv.leave": "c", "conv.handoff": "c", "conv.rate": "c", "visit": "c",
		"msg.send": "casm", "typing": "casm", "conv.close": "casm",
		"receipt": "casmr", "sync": "casmr", "file.links": "casmr",
		"take": "asm", "transfer": "asm", "transfer.accept": "asm", "transfer.decline": "asm", "return": "asm", "reopen": "asm",
		"note.send": "asm", "tag": "asm", "priority": "asm", "snooze": "asm", "canned.list": "asm", "contact.patch": "asm",
		"watch": "asmr", "unwatch": "asmr", "history": "asmr", "search": "asmr", "contact.get": "asmr",
		"assign": "sm", "contact.block": "sm", "contact.erase": "sm",
		"status": "asmr", "agents": "asmr", "active": "asmr", "ping": "casmr",
		"hello": "", "unknown": "", "": "",
	}
}

func TestRoleTimesCommand(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	roles := map[string]identity{
		"c": {actor: store.Actor{Kind: store.Customer, ID: "ann"}}, "a": {actor: store.Actor{Kind: store.Agent, ID: "a"}, role: perm.Agent},
		"s": {actor: store.Actor{Kind: store.Agent, ID: "s"}, role: perm.Supervisor}, "m": {actor: store.Actor{Kind: store.Agent, ID: "m"}, role: perm.Admin},
		"r": {actor: store.Actor{Kind: store.Agent, ID: "r"}, role: perm.Auditor}, "-": {actor: store.Actor{Kind: store.Agent, ID: "-"}},
		"0": {}, "b": {actor: store.Actor{Kind: store.Bot, ID: "b"}, role: perm.Admin},
	}
	for command, may := range mayUse() {
		for letter, who := range roles {
			s := r.hub.Connect(newWire(), Peer{})
			s.ident.Store(&who)
			if got, want := s.allowed(proto.Command{Type: command, ID: "1"}, who), strings.Contains(may, letter); got != want {
				t.Errorf("%q for %q: %v, want %v", command, letter, got, want)
			}
			s.Closed()
		}
	}
	for _, command := range commandTypes(t) {
		if _, known := mayUse()[command]; !known {
			t.Errorf("command %q is not in the table of rights", command)
		}
	}
	if n := r.hub.Counters.Denied.Load(); n == 0 {
		t.Error("refusals are not counted")
	}
}

// commandTypes reads the types that package proto decodes out of its source, so that none can be forgotten here.
func commandTypes(t *testing.T) (types []string) {
	t.Helper()
	names, err := filepath.Glob("../proto/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var decls []ast.Decl
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		decls = append(decls, file.Decls...)
	}
	for _, decl := range decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || !returnsKind(f) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CaseClause); ok {
				for _, e := range c.List {
					s, err := strconv.Unquote(e.(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					types = append(types, s)
				}
			}
			return true
		})
	}
	if len(types) < 25 {
		t.Fatalf("found only %q", types)
	}
	return types
}

// returnsKind tells whether a function says what a command needs.
func returnsKind(f *ast.FuncDecl) bool {
	if f.Type.Results == nil {
		return false
	}
	name, ok := f.Type.Results.List[0].Type.(*ast.Ident)
	return ok && name.Name == "kind"
}

func newWire() *wire { return &wire{wake: make(chan struct{})} }

// What a role may not do is refused over the wire, too, and written down once, not once per attempt of a flood.
func TestDeniedCommandsAreAudited(t *testing.T) {
	now := time.Now()
	r := newRig(t, Options{Limits: testLimits(), Now: func() time.Time { return now }})
	account, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: "ada", Name: "Ada", Password: "x", Role: perm.Auditor})
	r.ok(err)
	ada := r.agentClient(account)
	conv := r.open(r.customer(), "human")
	for range 2 * auditBurst {
		if got := r.do(ada, "take", conv, proto.Take{}); got != proto.CodeForbidden {
			t.Fatalf("an auditor takes: %q", got)
		}
	}
	r.ok(store.Record(r.ctx, r.db, store.Audit{Action: "end"}))
	rows, err := r.db.Cold().Audit(r.ctx, store.AuditQuery{Who: account.ID, Action: store.AuditDenied})
	r.ok(err)
	if len(rows) != auditBurst || rows[0].Target != "conversation "+conv || !strings.HasPrefix(rows[0].Detail, "take ") {
		t.Errorf("%d lines, %+v", len(rows), rows)
	}
}
