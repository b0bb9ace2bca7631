package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A block is what stands between two fences of a document. The words behind the first fence say what it is (docs/testing.md):
//
//	sh run         commands, executed in the order of the document
//	sh run server  one command that goes on while the later ones are executed, in a terminal of its own; it is up when it has printed what is shown,
//	               and, with port=NUMBER, when it listens there
//	text           right behind such a block: what it prints; … stands for anything, as a line of its own for any lines
//	text numbers   the same, and each number stands for any number
//	text interrupt what the last server prints when it is interrupted, ^C included; it has ended then
//	go             Go; with from=FILE lines of that file; with run file=NAME it is saved as that
//
// needs=PROGRAM behind run excuses a machine without that program.
type block struct {
	doc   string // slash path relative to the module's root
	line  int    // of the fence
	words []string
	text  string
	shows *block // the text block right behind it
}

func (b *block) name() string { return fmt.Sprintf("%s:%d", b.doc, b.line) }

func (b *block) is(word string) bool { return slices.Contains(b.words, word) }

// value returns what stands behind key=.
func (b *block) value(key string) string {
	for _, w := range b.words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return v
		}
	}
	return ""
}

// fences splits a document into its blocks.
func fences(doc, text string) (blocks []*block, err error) {
	var open *block
	var last *block // whose output may follow
	n := 0
	for line := range strings.Lines(text) {
		n++
		word, isFence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case open == nil && isFence:
			open = &block{doc: doc, line: n, words: strings.Fields(word)}
		case open != nil && isFence && word == "":
			if last != nil && len(open.words) > 0 && open.words[0] == "text" {
				last.shows = open
			}
			blocks, last, open = append(blocks, open), open, nil
		case open != nil:
			open.text += line
		case strings.HasPrefix(line, "#"):
			last = nil // a heading ends the connection
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s: no end of the block", open.name())
	}
	return blocks, nil
}

// repository returns the module's root.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// documents returns the blocks of each document.
func documents(t *testing.T) (names []string, blocks map[string][]*block) {
	t.Helper()
	root := repository(t)
	blocks = map[string][]*block{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "bench/*.md", "examples/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.ToSlash(rel)
			if blocks[name], err = fences(name, string(text)); err != nil {
				t.Error(err)
			}
			names = append(names, name)
		}
	}
	if len(names) < 10 {
		t.Fatalf("only %d documents found", len(names))
	}
	return names, blocks
}

var numberPattern = regexp.MustCompile(`\d+(\\?\.\d+)*`)

// pattern is a text block as an expression that matches what it stands for.
func (b *block) pattern() string {
	var p strings.Builder
	for line := range strings.Lines(b.text) {
		if line == "…\n" {
			p.WriteString(`(?:.*\n)*`)
			continue
		}
		quoted := regexp.QuoteMeta(strings.TrimRight(line, "\n"))
		if b.is("numbers") {
			quoted = numberPattern.ReplaceAllString(quoted, `\d+(?:\.\d+)*`)
			quoted = regexp.MustCompile(` {2,}`).ReplaceAllString(quoted, ` +`)
		}
		p.WriteString(strings.ReplaceAll(quoted, "…", ".*") + `\n`)
	}
	return p.String()
}

// matches reports whether the output is what the block shows; begins, whether it begins so.
func (b *block) matches(output string) bool {
	return regexp.MustCompile("^" + b.pattern() + "$").MatchString(ended(output))
}

func (b *block) begins(output string) bool {
	return regexp.MustCompile("^" + b.pattern()).MatchString(output)
}

// ended is text with an end of its last line.
func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// TestFences: documents are read correctly, so that the tests below mean something.
func TestFences(t *testing.T) {
	blocks, err := fences("x.md", "# Title\n```sh run needs=curl\nls\n```\nprints\n\n```text\na …\n…\nend\n```\n\n```sh run server\nserve\n```\n## Else\n```text\nunrelated\n```\n")
	if err != nil || len(blocks) != 4 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	first := blocks[0]
	if first.text != "ls\n" || first.line != 2 || !first.is("run") || first.is("server") || first.value("needs") != "curl" || first.shows != blocks[1] || !blocks[2].is("server") || blocks[2].shows != nil {
		t.Errorf("%+v, %+v", first, blocks[2])
	}
	if _, err := fences("x.md", "```sh\nls\n"); err == nil {
		t.Error("a block without an end was taken")
	}
	for _, c := range []struct {
		words, shows, output string
		matches, begins      bool
	}{
		{"text", "a …\n…\nend\n", "a b\nend\n", true, true},
		{"text", "a …\n…\nend\n", "a b\nc\nd\nend", true, false}, // the last line may still grow
		{"text", "a …\n…\nend\n", "a b\nc\nend\nmore\n", false, true},
		{"text", "a …\n…\nend\n", "a\nend\n", false, false},
		{"text", "3 (x)\n", "3 (x)\n", true, true},
		{"text", "3 (x)\n", "4 (x)\n", false, false},
		{"text numbers", "p99    5.493 ms, 3\n", "p99  17.2 ms, 0\n", true, true},
		{"text numbers", "p99    5.493 ms\n", "p99  fast ms\n", false, false},
	} {
		b := &block{words: strings.Fields(c.words), text: c.shows}
		if b.matches(c.output) != c.matches || b.begins(c.output) != c.begins {
			t.Errorf("%q shows %q: matches %v, begins %v", c.shows, c.output, b.matches(c.output), b.begins(c.output))
		}
	}
}
