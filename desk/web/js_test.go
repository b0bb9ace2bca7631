package web

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestModulesWithNode runs the unit tests of the pure modules (back-off,
// connection, event log, outbox, inbox, links, texts). It is skipped when node
// is missing, unless EDDY_REQUIRE contains "node".
func TestModulesWithNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if strings.Contains(os.Getenv("EDDY_REQUIRE"), "node") {
			t.Fatal("node is required but not installed")
		}
		t.Skip("node is not installed")
	}
	files, err := filepath.Glob("jstest/*.test.js")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, name := range append(files, "jstest/support.js", "package.json") {
		if _, err := os.ReadFile(name); err != nil { // read here, so that go test knows what the result depends on
			t.Fatal(err)
		}
	}
	out, err := exec.Command(node, append([]string{"--test"}, files...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("node --test: %v\n%s", err, out)
	}
}
