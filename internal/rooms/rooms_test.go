package rooms

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestIntrusions: references to types, functions, methods and fields of another room are found.
func TestIntrusions(t *testing.T) {
	plan := Plan{
		Of: func(file string) string {
			if room, _, ok := strings.Cut(file, "_"); ok {
				return room
			}
			return "shared"
		},
		Below: map[string][]string{"client": {"event", "shared"}, "server": {"event", "shared"}, "event": {"shared"}, "shared": {}},
	}
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, source := range [][2]string{
		{"client_x.go", "type C struct{ s *S }; func (c *C) Do() { c.s.n = c.s.Get(); limit() }"},
		{"server_x.go", "type S struct{ n int }; func (s *S) Get() int { return size }"},
		{"event_x.go", "func limit() { _ = S{} }"},
		{"other.go", "const size = 1; var _ C"},
	} {
		f, err := parser.ParseFile(fset, source[0], "package p; "+source[1], 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	bad, seen := plan.intrusions(fset, files)
	want := []string{
		"client_x.go names Get of server_x.go", "client_x.go names S of server_x.go", "client_x.go names n of server_x.go",
		"event_x.go names S of server_x.go", "other.go names C of client_x.go",
	}
	if !slices.Equal(bad, want) || seen["event"] != 1 || seen["shared"] != 1 {
		t.Errorf("%q, %v", bad, seen)
	}
}
