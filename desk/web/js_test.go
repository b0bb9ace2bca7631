package web

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// TestModulesWithNode runs the unit tests of the pure modules (back-off,
// connection, event log, outbox, inbox, links, texts). It is skipped when node
// is missing, unless EDDY_REQUIRE contains "node".
func TestModulesWithNode(t *testing.T) {
	node := testkit.Tool(t, "node")
	files, err := filepath.Glob("jstest/*.test.js")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, name := range append(files, "jstest/support.js", "package.json") {
		if _, err := os.ReadFile(name); err != nil { // read here, so that go test knows what the result depends on
			t.Fatal(err)
		}
	}
	// All in one process: to start one for each file, as node --test does, takes longer than the tests.
	all := `import { pathToFileURL } from 'node:url'; for (const f of process.argv.slice(1)) await import(pathToFileURL(f));`
	out, err := exec.Command(node, append([]string{"--input-type=module", "-e", all, "--"}, files...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, out)
	}
	passed := 0
	if m := regexp.MustCompile(`(?m)^\S+ pass (\d+)$`).FindSubmatch(out); m != nil {
		passed, _ = strconv.Atoi(string(m[1]))
	}
	if passed < len(files) {
		t.Errorf("%d tests of %d files have passed:\n%s", passed, len(files), out)
	}
}
