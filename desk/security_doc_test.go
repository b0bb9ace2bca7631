package desk

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that the page about security names is there.
func TestSecurityPageNamesTests(t *testing.T) {
	page, err := os.ReadFile("../docs/desk-security.md")
	if err != nil {
		t.Fatal(err)
	}
	have := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(|\{"(\w+)", test\w+\}`)
	for _, root := range []string{".", "../cmd/eddy"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
				have[m[1]] = true
				have["Test"+m[2]] = true // one of the conformance suite
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	names := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(names) < 60 {
		t.Errorf("only %d tests are named", len(names))
	}
	for _, m := range names {
		if !have[m[1]] {
			t.Errorf("%s is not there", m[1])
		}
	}
}
