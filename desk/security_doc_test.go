package desk

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that the pages about security and failures name is there, and no row of theirs is without one.
func TestPagesNameTests(t *testing.T) {
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
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	for page, least := range map[string]int{"desk-security.md": 60, "desk-failures.md": 60} {
		text, err := os.ReadFile(filepath.Join("../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		names := named.FindAllStringSubmatch(string(text), -1)
		if len(names) < least {
			t.Errorf("%s: only %d tests are named", page, len(names))
		}
		for _, m := range names {
			if !have[m[1]] {
				t.Errorf("%s: %s is not there", page, m[1])
			}
		}
		for line := range strings.Lines(string(text)) {
			head := strings.HasPrefix(line, "|--") || strings.HasSuffix(line, "| tests |\n")
			if strings.HasPrefix(line, "|") && !head && !named.MatchString(line) {
				t.Errorf("%s: no test in the row %.60q", page, line)
			}
		}
	}
}
