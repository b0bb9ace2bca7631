package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// moment is an expression that holds a monotonic time.
var moment = regexp.MustCompile(`(?i)(now|since|begin|from|when)(\(\))?$`)

// TestDeadlinesSaturate: wheel.After makes every deadline of the engine and its protocols. A plain sum of a time and a
// duration near the maximum, which the application may choose, overflows. Such a deadline has passed before it began.
func TestDeadlinesSaturate(t *testing.T) {
	root := moduleRoot(t)
	err := goFiles(root, func(rel string) error {
		dir, _, _ := strings.Cut(rel, "/")
		switch {
		case strings.HasSuffix(rel, "_test.go"), strings.HasPrefix(rel, "internal/"), dir == "desk", dir == "bench", dir == "cmd", dir == "examples":
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(root, rel), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, n := range plainSums(file) {
			t.Errorf("%s: %s: use wheel.After", fset.Position(n.Pos()), types.ExprString(n))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPlainSumsAreSeen: the check finds plain sums.
func TestPlainSumsAreSeen(t *testing.T) {
	for text, want := range map[string]int{
		"l.clock.Now() + int64(d)": 1, "int64(d) + now": 1, "c.since + int64(limit)": 1, "n + int64(len(p))": 0, "now + 1": 0, "now - int64(d)": 0,
	} {
		e, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(plainSums(e)); got != want {
			t.Errorf("%s: %d", text, got)
		}
	}
}

// plainSums returns the sums of a time and a duration below n.
func plainSums(n ast.Node) (found []ast.Expr) {
	ast.Inspect(n, func(n ast.Node) bool {
		if sum, ok := n.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
			x, y := types.ExprString(sum.X), types.ExprString(sum.Y)
			if moment.MatchString(x) && strings.HasPrefix(y, "int64(") || moment.MatchString(y) && strings.HasPrefix(x, "int64(") {
				found = append(found, sum)
			}
		}
		return true
	})
	return found
}
