package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamplesAreListed: each folder of examples is a command that says what it shows, short enough to be read, with a test, and listed.
func TestExamplesAreListed(t *testing.T) {
	dir := filepath.Join(moduleRoot(t), "examples")
	list, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range folders {
		if !f.IsDir() || f.Name() == "internal" {
			continue
		}
		found[f.Name()] = true
		code, err := os.ReadFile(filepath.Join(dir, f.Name(), "main.go"))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.HasPrefix(string(code), "// Command "+f.Name()+" ") {
			t.Errorf("examples/%s/main.go does not begin with what it shows", f.Name())
		}
		if n := strings.Count(string(code), "\n"); n > 110 {
			t.Errorf("examples/%s/main.go has %d lines: too many to read in two minutes", f.Name(), n)
		}
		if test, err := os.ReadFile(filepath.Join(dir, f.Name(), "main_test.go")); err != nil || !funcPattern.Match(test) {
			t.Errorf("examples/%s has no test: %v", f.Name(), err)
		}
		if !strings.Contains(string(list), "| ["+f.Name()+"]("+f.Name()+"/main.go) |") {
			t.Errorf("examples/README.md does not list %s", f.Name())
		}
	}
	for _, name := range strings.Fields("echo shout frame pipeline lanes http httpclient chat tls rpc drain codec") {
		if !found[name] {
			t.Errorf("there is no example %s", name)
		}
	}
}
