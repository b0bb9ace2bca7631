package house

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/go-eddy/eddy"

// A layer of the house. A package imports only lower layers, and its own layer where peers is set.
type layer struct {
	rank  int
	peers bool // packages of this layer may import each other
	core  bool // standard library and golang.org/x/sys only
}

// layers gives every directory of the module its place; the longest matching prefix wins, "." is the module's root package.
var layers = map[string]layer{
	"internal":                 {rank: 0, peers: true, core: true},
	"internal/meter":           {rank: -1, core: true},
	"internal/reactor":         {rank: 1, core: true},
	"internal/accept":          {rank: 2, core: true},
	"limit":                    {rank: 1, core: true},
	"ring":                     {rank: 1, core: true},
	"buf":                      {rank: 2, core: true},
	"internal/transport":       {rank: 2, peers: true, core: true}, // buf is a peer
	"executor":                 {rank: 2, core: true},
	".":                        {rank: 3, core: true},
	"responder":                {rank: 4, core: true},
	"trace":                    {rank: 4, core: true},
	"overload":                 {rank: 4, core: true},
	"codec":                    {rank: 5, core: true},
	"codec/internal/codectest": {rank: 6, core: true},
	"internal/enginetest":      {rank: 4, core: true},
	"internal/httpserve":       {rank: 5, core: true},
	"internal/clienttls":       {rank: 6, peers: true}, // over tlsx, for the clients beside it
	"internal/clienttlstest":   {rank: 5},              // tests that they have in common
	"http1":                    {rank: 6, peers: true},
	"http2":                    {rank: 6, peers: true},
	"websocket":                {rank: 6, peers: true},
	"tlsx":                     {rank: 6, peers: true},
	"relay":                    {rank: 6, peers: true},
	"desk":                     {rank: 7, peers: true},
	"rpc":                      {rank: 7, peers: true},
	"rpc/internal":             {rank: 6},
	"rpc/internal/retry":       {rank: 5},
	"rpc/discovery":            {rank: 5},
	"rpc/balance":              {rank: 5, peers: true}, // instances are those of discovery
	"rpc/balance/httpbalance":  {rank: 7, peers: true},
	"rpc/discovery/internal":   {rank: 6}, // what registries have in common
	"rpc/discovery/kubernetes": {rank: 7},
	"rpc/discovery/nacos":      {rank: 7},
	"rpc/internal/grpcwire":    {rank: 5}, // what gRPC and gRPC-Web have in common
	"admin":                    {rank: 7, peers: true},
	"metrics":                  {rank: 8, peers: true},
	"internal/house":           {rank: 9},
	"examples":                 {rank: 9},
	"scripts":                  {rank: 9},
	"cmd/eddy/internal":        {rank: 9, peers: true}, // what single commands are made of
	// The commands and what they share. One command knows another only where this table says so.
	"cmd/eddy/internal/cli":       {rank: 10},
	"cmd/eddy/internal/operator":  {rank: 11},
	"cmd/eddy/internal/health":    {rank: 11}, // desk asks itself how it is
	"cmd/eddy/internal/serving":   {rank: 12},
	"cmd/eddy/internal/serve":     {rank: 13},
	"cmd/eddy/internal/desk":      {rank: 13},
	"cmd/eddy/internal/call":      {rank: 13},
	"cmd/eddy/internal/top":       {rank: 13},
	"cmd/eddy/internal/doctor":    {rank: 13},
	"cmd/eddy/internal/benchdesk": {rank: 13},
	"cmd/eddy/internal/bench":     {rank: 14}, // "eddy bench desk" is one of its commands
	"cmd/eddy/internal/root":      {rank: 15},
	"cmd":                         {rank: 16},
	// Generated code that commands and examples use.
	"examples/greeter/greeterpb": {rank: 8},
}

// layerOf returns the layer of a package directory relative to the module root.
func layerOf(dir string) (layer, bool) {
	for p := dir; ; p = path.Dir(p) {
		if l, ok := layers[p]; ok && (p != "." || dir == ".") {
			return l, true
		}
		if p == "." {
			return layer{}, false
		}
	}
}

// violations lists what is wrong with the imports of the package in dir.
func violations(dir string, imports []string) []string {
	from, ok := layerOf(dir)
	if !ok {
		return []string{fmt.Sprintf("package %s has no layer: add it to the table", dir)}
	}
	var bad []string
	for _, imp := range imports {
		to, inside := strings.CutPrefix(imp, module)
		switch {
		case inside && (to == "" || to[0] == '/'):
			if v := checkInside(dir, from, path.Clean("./"+to)); v != "" {
				bad = append(bad, v)
			}
		case strings.HasPrefix(imp, "github.com/prometheus/") && !prometheusRoom(dir):
			bad = append(bad, fmt.Sprintf("package %s imports %s: only metrics and examples know Prometheus", dir, imp))
		case from.core && !allowedInCore(imp):
			bad = append(bad, fmt.Sprintf("core package %s imports %s: the core uses the standard library and golang.org/x/sys only", dir, imp))
		}
	}
	return bad
}

func checkInside(dir string, from layer, target string) string {
	target = strings.TrimPrefix(target, "/")
	to, ok := layerOf(target)
	switch {
	case !ok:
		return fmt.Sprintf("package %s imports %s, which has no layer: add it to the table", dir, target)
	case to.rank == from.rank && path.Dir(dir) != "." && strings.HasPrefix(target, path.Dir(dir)+"/internal/"): // what packages side by side have in common
	case to.rank > from.rank, to.rank == from.rank && !from.peers:
		return fmt.Sprintf("package %s (layer %d) imports %s (layer %d): imports run downwards only", dir, from.rank, target, to.rank)
	}
	return ""
}

// prometheusRoom reports whether a package may know Prometheus. All other packages only count, and metrics reads their
// numbers.
func prometheusRoom(dir string) bool {
	room, _, _ := strings.Cut(dir, "/")
	return room == "metrics" || room == "examples"
}

func allowedInCore(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".") || strings.HasPrefix(imp, "golang.org/x/sys/")
}

// moduleRoot walks up to the directory of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test's directory")
		}
		dir = up
	}
}

// goFiles yields every Go file of the module, as slash paths relative to root. Nested modules (bench) and hidden directories are not part of it.
func goFiles(root string, visit func(rel string) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, p, d.Name())
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(rel))
	})
}

func skipDir(root, p, name string) error {
	if p == root {
		return nil
	}
	if strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(p, "go.mod")); !errors.Is(err, fs.ErrNotExist) {
		return filepath.SkipDir
	}
	return nil
}

// TestImportDirection reads the imports of every non-test file, whatever its build tags, and checks them against the
// layers of the design.
func TestImportDirection(t *testing.T) {
	root := moduleRoot(t)
	packages := map[string]map[string]bool{}
	err := goFiles(root, func(rel string) error {
		if strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, rel), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := path.Dir(rel)
		if packages[dir] == nil {
			packages[dir] = map[string]bool{}
		}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			packages[dir][imp] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 2 {
		t.Fatalf("found only %d packages below %s: the walk is broken", len(packages), root)
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		for _, v := range violations(dir, slices.Sorted(maps.Keys(packages[dir]))) {
			t.Error(v)
		}
	}
}

// TestImportRules shows that the rules refuse what they must, so that a green TestImportDirection means something.
func TestImportRules(t *testing.T) {
	for _, c := range []struct {
		dir, imp string
		ok       bool
	}{
		{".", "golang.org/x/sys/unix", true},
		{".", module + "/executor", true},
		{".", module + "/internal/poll", true},
		{".", module + "/http1", false},
		{".", module + "/responder", false},
		{"responder", module, true},
		{"responder", module + "/codec/line", false},
		{"codec/frame", module + "/responder", true},
		{".", "github.com/google/uuid", false},
		{"executor", module, false},
		{"codec/line", module + "/codec/internal/frames", true},
		{"codec/line", module + "/codec/fixed", false},
		{"executor", module + "/buf", false},
		{"buf", module + "/internal/sys", true},
		{"buf", module + "/internal/transport", false},
		{"internal/transport", module + "/buf", true},
		{"internal/transport", module, false},
		{"internal/poll", module + "/internal/sys", true},
		{"internal/poll", module, false},
		{"codec/line", module, true},
		{"codec/line", "golang.org/x/text/width", false},
		{"codec/line", module + "/codec/fixed", false},
		{"http1", module + "/desk/store", false},
		{"websocket", module + "/http1", true},
		{"desk/store", "modernc.org/sqlite", true},
		{"desk", module + "/desk/store", true},
		{"desk", module + "/cmd/eddy", false},
		{"metrics/deskmetrics", module + "/desk", true},
		{"metrics", module + "/rpc", true},
		{"metrics", "github.com/prometheus/client_golang/prometheus", true},
		{"cmd/eddy", module + "/metrics", true},
		{"cmd/eddy/internal/serve", module + "/cmd/eddy/internal/serving", true},
		{"cmd/eddy/internal/serve", module + "/cmd/eddy/internal/desk", false},
		{"cmd/eddy/internal/cli", module + "/cmd/eddy/internal/serving", false},
		{"desk", module + "/metrics", false},
		{"admin", module + "/metrics", false},
		{"admin", "github.com/prometheus/client_golang/prometheus", false},
		{"rpc", module + "/rpc/internal/payload", true},
		{"rpc/internal/payload", module + "/rpc", false},
		{"rpc/internal/pending", module + "/rpc/internal/payload", false},
		{"rpc", "github.com/prometheus/client_golang/prometheus", false},
		{"attic", "fmt", false},
		{"codec/line", module + "/attic", false},
	} {
		if got := violations(c.dir, []string{c.imp}); (len(got) == 0) != c.ok {
			t.Errorf("%s importing %s: violations %v, want allowed=%v", c.dir, c.imp, got, c.ok)
		}
	}
}
