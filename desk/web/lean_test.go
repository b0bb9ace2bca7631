package web

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

func TestLean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a.js", "// one\n\t// two\nlet a = 1; // three\n", "let a = 1;\n"},
		{"a.js", "f('a // b'); // c\ng(`a // b`);\nh(); // it's\n", "f('a // b'); // c\ng(`a // b`);\nh(); // it's\n"},
		{"a.js", "/**\n * about f\n */\nf();\n/* short */\ng();\n", "f();\ng();\n"},
		{"a.js", "/* a */ f(); /* b */\n/* c */ g();\n", "/* a */ f(); /* b */\n/* c */ g();\n"},
		{"a.js", "f(/* not\nat the beginning */);\n", "f(/* not\nat the beginning */);\n"},
		{"a.js", "const u = 'https://example.com'\n", "const u = 'https://example.com'\n"},
		{"a.css", "/* one */\na { color: red; } /* two */\n/* three\nfour */\n//b {}\n", "a { color: red; } /* two */\n//b {}\n"},
		{"a.html", "<!-- x -->\n// y\n", "<!-- x -->\n// y\n"},
		{"a.js", "", ""},
		{"a.js", "f()", "f()"},
	} {
		if got := string(Lean(c.name, []byte(c.in))); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

// plainText is a text on one line, which may hold the quotes of the others.
var plainText = regexp.MustCompile(`'(?:[^'\\\n]|\\.)*'`)

// What is dropped stands in no text over several lines, and what is left is a module.
func TestLeanDropsOnlyComments(t *testing.T) {
	dir := t.TempDir()
	var scripts []string
	for _, name := range allFiles(t) {
		source := read(t, name)
		lean := Lean(name, source)
		if path.Ext(name) != ".js" {
			continue
		}
		quotes := 0
		rest := lean
		for line := range bytes.Lines(source) {
			next, _, _ := bytes.Cut(rest, []byte("\n"))
			if bytes.HasPrefix(rest, line) {
				rest = rest[len(line):]
			} else if quotes%2 == 1 {
				t.Errorf("%s: a line within a text is dropped or cut off: %s", name, line)
			} else if len(next) > 0 && bytes.HasPrefix(line, next) && bytes.HasPrefix(bytes.TrimSpace(line[len(next):]), []byte("//")) {
				rest = rest[len(next)+1:]
			}
			quotes += bytes.Count(plainText.ReplaceAll(line, nil), []byte("`"))
		}
		if len(rest) > 0 {
			t.Errorf("%s: what is left is not in the file: %.80s", name, rest)
		}
		file := filepath.Join(dir, strings.ReplaceAll(strings.TrimSuffix(name, ".js"), "/", "-")+".mjs")
		if err := os.WriteFile(file, lean, 0o600); err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, file)
	}
	node := testkit.Tool(t, "node")
	check := `import { readFileSync } from 'node:fs'; import vm from 'node:vm'; for (const f of process.argv.slice(1)) new vm.SourceTextModule(readFileSync(f, 'utf8'), { identifier: f });`
	out, err := exec.Command(node, append([]string{"--experimental-vm-modules", "--no-warnings", "--input-type=module", "-e", check, "--"}, scripts...)...).CombinedOutput()
	if err != nil {
		t.Errorf("what is left is no module: %v\n%s", err, out)
	}
}
