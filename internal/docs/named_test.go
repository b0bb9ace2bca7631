package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamedTestsExist: each test that docs/testing.md names for what use has found in Desk is there.
func TestNamedTestsExist(t *testing.T) {
	root := repository(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### What use has found in Desk")
	section, _, _ = strings.Cut(section, "\n## ")
	named := regexp.MustCompile("`(Test\\w+|[a-z-]+\\.test\\.js)`").FindAllStringSubmatch(section, -1)
	if len(named) < 30 {
		t.Fatalf("the section names %d tests only", len(named))
	}
	there := map[string]bool{}
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, room := range []string{"desk", "internal/docs"} {
		if err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(room)), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			there[d.Name()] = true
			if !strings.HasSuffix(path, "_test.go") {
				return nil
			}
			code, err := os.ReadFile(path)
			for _, m := range test.FindAllSubmatch(code, -1) {
				there[string(m[1])] = true
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("docs/testing.md names %s, which is not there", m[1])
		}
	}
}
