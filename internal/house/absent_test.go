package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// absent matches references to texts that are not in the repository, such as a design document by its section.
var absent = regexp.MustCompile(`\bDESIGN( section)? ?[0-9]|\bDESIGN(\.md| section| names)|\breference ([a-z]+ )?[0-9]+\.[0-9]|\bHOUSE\.md|\bfindings/|(^|[^/\w])spec/[a-z]|\bspec [0-9]+\.[0-9]`)

// page matches the path of a document.
var page = regexp.MustCompile(`\bdocs/[a-z0-9-]+\.md\b`)

// absentTexts returns what a text refers to that is not there.
func absentTexts(text string, exists func(path string) bool) []string {
	found := absent.FindAllString(text, -1)
	for _, p := range page.FindAllString(text, -1) {
		if !exists(p) {
			found = append(found, p)
		}
	}
	return found
}

// TestNoAbsentTexts: whoever reads a comment or a document finds what it refers to in the repository.
func TestNoAbsentTexts(t *testing.T) {
	root := moduleRoot(t)
	exists := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path)))
		return err == nil
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root && d.Name() != ".ci":
			return filepath.SkipDir
		case d.IsDir() || d.Name() == "absent_test.go" || !slices.Contains([]string{".go", ".md", ".sh", ".js", ".css", ".html", ".yaml"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		for _, what := range absentTexts(string(text), exists) {
			t.Errorf("%s refers to %q, which is not in the repository", rel, what)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAbsentTextsAreFound: the search finds what it is for, and leaves other uses of the words alone.
func TestAbsentTextsAreFound(t *testing.T) {
	exists := func(path string) bool { return path == "docs/loops.md" }
	for text, want := range map[string]int{
		"the phases of DESIGN 3.3": 1, "DESIGN section 4 says": 1, "as reference 2.10 has it": 1, "see reference netty 1.10": 1, "spec 5.12": 1,
		"the layout of spec/frame.md": 1, "docs/loops.md and docs/gone.md": 1, "findings/engine.md": 1,
		"a buffer by reference, design by contract, the findings of doctor": 0, "Task budget per iteration (reference 1024)": 0, "docs/loops.md": 0,
	} {
		if got := absentTexts(text, exists); len(got) != want {
			t.Errorf("%q: found %q, want %d", text, got, want)
		}
	}
}
