package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A subject is a part of the code and the packages whose tests are asked about it, in this order.
type subject struct {
	files []string // patterns, relative to the module's root
	tests []string
}

// subjects are drawn from in turn.
var subjects = []subject{
	{[]string{"loop.go", "panics.go", "internal/reactor/loop.go", "internal/reactor/wait.go"}, []string{"./internal/reactor", ".", "./internal/sys/sim"}},
	{[]string{"tasks.go", "internal/reactor/queue.go", "internal/reactor/tasks.go"}, []string{"./internal/reactor", ".", "./internal/sys/sim"}},
	{[]string{"timeouts.go", "internal/reactor/timer.go"}, []string{"./internal/reactor", ".", "./internal/sys/sim"}},
	{[]string{"internal/wheel/*.go"}, []string{"./internal/wheel", "."}},
	{[]string{"executor/*.go"}, []string{"./executor", "."}},
	{[]string{"rpc/client*.go"}, []string{"./rpc"}},
	{[]string{"desk/hub/*.go"}, []string{"./desk/hub", "./desk"}},
}

// A mutant is a fault: other text in place of a range of a file.
type mutant struct {
	subject  subject
	file     string // relative to the module's root
	line     int
	from, to int // bytes
	old, new string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s → %s", m.file, m.line, oneLine(m.old), oneLine(m.new))
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return "nothing"
	}
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return s
}

type options struct {
	root    string
	n       int
	seed    uint64
	only    int
	timeout time.Duration
}

// draw lists faults in the order of the seed, the subjects in turn. There are more than asked for, because some do not
// compile.
func draw(o options) ([]mutant, error) {
	var pools [][]mutant
	random := rand.New(rand.NewPCG(o.seed, 0))
	for _, s := range subjects {
		var all []mutant
		for _, pattern := range s.files {
			files, err := filepath.Glob(filepath.Join(o.root, pattern))
			if err != nil {
				return nil, err
			}
			for _, f := range files {
				if strings.HasSuffix(f, "_test.go") {
					continue
				}
				found, err := mutants(o.root, f)
				if err != nil {
					return nil, err
				}
				all = append(all, found...)
			}
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("no faults can be planted in %s", strings.Join(s.files, ", "))
		}
		for i := range all {
			all[i].subject = s
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		pools = append(pools, all)
	}
	var drawn []mutant
	for i := 0; len(drawn) < 2*o.n; i++ {
		took := false
		for _, p := range pools {
			if i < len(p) {
				drawn, took = append(drawn, p[i]), true
			}
		}
		if !took {
			break
		}
	}
	return drawn, nil
}

// opposite are the operators that stand for each other in a fault.
var opposite = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.AND: token.OR, token.SHL: token.SHR, token.SHR: token.SHL,
}

// mutants are the faults that can be planted in a file: another operator, a condition turned round, a statement left out, a
// number that is one more.
func mutants(root, file string) ([]mutant, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, file)
	if err != nil {
		return nil, err
	}
	var all []mutant
	add := func(pos, end token.Pos, repl string) {
		from, to := set.Position(pos).Offset, set.Position(end).Offset
		all = append(all, mutant{file: filepath.ToSlash(rel), line: set.Position(pos).Line, from: from, to: to, old: string(text[from:to]), new: repl})
	}
	source := func(n ast.Node) string {
		return string(text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
	}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "String" {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if o, ok := opposite[n.Op]; ok && !isText(n.X) && !isText(n.Y) {
					add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), o.String())
				}
			case *ast.IfStmt:
				add(n.Cond.Pos(), n.Cond.End(), "!("+source(n.Cond)+")")
			case *ast.ExprStmt:
				if !isLog(n) {
					add(n.Pos(), n.End(), "")
				}
			case *ast.IncDecStmt:
				add(n.Pos(), n.End(), "")
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE && !allBlank(n.Lhs) {
					add(n.Pos(), n.End(), "")
				}
			case *ast.DeferStmt:
				add(n.Pos(), n.End(), "")
			case *ast.BasicLit:
				if n.Kind == token.INT && len(n.Value) < 4 && n.Value[0] != '0' {
					add(n.Pos(), n.End(), n.Value+"+1")
				}
			}
			return true
		})
	}
	slices.SortStableFunc(all, func(a, b mutant) int { return a.from - b.from })
	return all, nil
}

// isText reports whether an operand is a text: + of texts has no opposite.
func isText(x ast.Expr) bool {
	lit, ok := x.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING
}

// isLog reports whether a statement only tells a log: no test is asked for each word of that.
func isLog(s *ast.ExprStmt) bool {
	call, ok := s.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, sel.Sel.Name)
}

func allBlank(list []ast.Expr) bool {
	return !slices.ContainsFunc(list, func(x ast.Expr) bool { id, ok := x.(*ast.Ident); return !ok || id.Name != "_" })
}
