package docs

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocumentedCode: the Go code in the documents is valid. A whole program or file compiles. A block that names its
// file has lines of that file, in their order. All other code can be parsed.
func TestDocumentedCode(t *testing.T) {
	root := repository(t)
	names, blocks := documents(t)
	files := map[string]string{} // by the folder of their package
	quoted := 0
	for _, name := range names {
		for _, b := range blocks[name] {
			if len(b.words) == 0 || b.words[0] != "go" {
				continue
			}
			from := b.value("from")
			switch {
			case from != "":
				quoted++
				if text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(from))); err != nil {
					t.Errorf("%s: %v", b.name(), err)
				} else if missing := notIn(b.text, string(text)); missing != "" {
					t.Errorf("%s: %s does not have these lines:\n%s", b.name(), from, missing)
				}
			case isFile(b.text):
				files[strings.NewReplacer("/", "_", ".", "_", ":", "_").Replace(b.name())] = b.text
			default:
				if err := parses(b.text); err != nil {
					t.Errorf("%s: %v\n%s", b.name(), err, b.text)
				}
			}
		}
	}
	if quoted < 10 {
		t.Errorf("only %d blocks are quoted from files", quoted)
	}
	compile(t, root, files)
}

// isFile reports whether the first line of code is a package clause.
func isFile(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			return strings.HasPrefix(line, "package ")
		}
	}
	return false
}

// notIn returns the part of a snippet whose lines do not follow each other in the text. Indentation does not count, and
// a line of … stands for any lines.
func notIn(snippet, text string) string {
	whole := trimmed(text)
	for part := range strings.SplitSeq(trimmed(snippet), "\n…\n") {
		at := strings.Index(whole, "\n"+strings.Trim(part, "\n")+"\n")
		if at < 0 {
			return part
		}
		whole = whole[at+1:] // the parts are in order
	}
	return ""
}

// trimmed is text without the spaces around its lines, with an end of line in front.
func trimmed(text string) string {
	var b strings.Builder
	b.WriteString("\n")
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// parses reports what is wrong with declarations, statements or fields of a composite literal.
func parses(text string) error {
	text = strings.ReplaceAll(text, "…", "/* … */")
	var first error
	for _, frame := range [][2]string{{"package p\n", ""}, {"package p\nfunc _() {\n", "\n}"}, {"package p\nvar _ = T{\n", "\n}"}} {
		_, err := parser.ParseFile(token.NewFileSet(), "", frame[0]+text+frame[1], parser.SkipObjectResolution)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// compile type-checks packages of one file each, in a module beside this one.
func compile(t *testing.T, root string, files map[string]string) {
	t.Helper()
	if len(files) == 0 {
		t.Fatal("no document shows a whole file")
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "main.go"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.mod" {
			const ours = "github.com/go-eddy/eddy"
			_, rest, _ := strings.Cut(string(text), "\n")
			text = fmt.Appendf(nil, "module shown\n%s\nrequire %s v0.0.0\nreplace %s => %q\n", rest, ours, ours, root)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "vet", "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCodeRules: what is wrong with a snippet is found.
func TestCodeRules(t *testing.T) {
	const file = "package p\n\nfunc a() {\n\tone()\n\ttwo()\n\tthree()\n}\n"
	for snippet, missing := range map[string]bool{
		"one()\ntwo()\n":              false,
		"\t\tone()\n\t\ttwo()\n":      false,
		"one()\nthree()\n":            true,
		"one()\n…\nthree()\n":         false,
		"three()\n…\none()\n":         true,
		"tw\n":                        true,
		"one()\n// …\n":               true,
		"func a() {\n\tone()\n…\n}\n": false,
	} {
		if got := notIn(snippet, file); (got != "") != missing {
			t.Errorf("%q: missing %q", snippet, got)
		}
	}
	for text, ok := range map[string]bool{"a := f()\n": true, "func f() {}\n": true, "Init: f,\n": true, "a := \n": false, "func {\n": false} {
		if err := parses(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	if isFile("// x\n\npackage p\n") != true || isFile("p.Add()\n") {
		t.Error("isFile is wrong")
	}
}
