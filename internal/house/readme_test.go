package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readme(t *testing.T) (root, text string) {
	t.Helper()
	root = moduleRoot(t)
	doc, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return root, string(doc)
}

// TestReadmeExample compares the program in the README with the example that is compiled and tested.
func TestReadmeExample(t *testing.T) {
	root, doc := readme(t)
	code, err := os.ReadFile(filepath.Join(root, "examples", "shout", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(doc, "```go\n"+string(code)+"```\n") {
		t.Error("README.md does not show examples/shout/main.go as it is")
	}
}

// TestReadmeCommands looks for the two commands that a newcomer starts with. .ci/run takes the second one from the
// README.
func TestReadmeCommands(t *testing.T) {
	_, doc := readme(t)
	for _, command := range []string{"go run ./cmd/eddy desk", "go test ./..."} {
		if !strings.Contains(doc, "\n"+command+"\n") {
			t.Errorf("README.md has no line %q", command)
		}
	}
}

// codeBlock matches code, in which F[T](x) looks like a link.
var codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")

var linkPattern = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)

// TestDocumentLinks follows the relative links of the documents.
func TestDocumentLinks(t *testing.T) {
	root := moduleRoot(t)
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "bench/*.md", "examples/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	links := 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range linkPattern.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), m[1])); err != nil {
				t.Errorf("%s: link to %s leads nowhere", filepath.Base(document), m[1])
			}
		}
	}
	if links == 0 {
		t.Error("no link found in any document: the pattern is broken")
	}
}

// TestDocumentsAreListed: docs/README.md leads to every document.
func TestDocumentsAreListed(t *testing.T) {
	dir := filepath.Join(moduleRoot(t), "docs")
	list, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := filepath.Base(f); name != "README.md" && !strings.Contains(string(list), "]("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}
