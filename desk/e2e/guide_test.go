package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const guide = "../../docs/desk.md"

var (
	scriptText = regexp.MustCompile(`(?m)^\s*'[^']+': '((?:[^'\\]|\\.)*)',`)
	manageText = regexp.MustCompile(`(?m)^\s*"[^"]+":\s+"((?:[^"\\]|\\.)*)"`)
	insertion  = regexp.MustCompile(`\\\{\w+\\\}|%[ds]`)
)

// A label is one text of the pages, with anything in the places where they insert something.
type label struct{ *regexp.Regexp }

// labels returns all English texts of the pages, from the scripts and from the administration.
func labels(t *testing.T) (all []label) {
	t.Helper()
	add := func(file string, pattern *regexp.Regexp) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		english, _, _ := strings.Cut(string(text), "\t'zh-CN': {\n")
		for _, m := range pattern.FindAllStringSubmatch(english, -1) {
			said := strings.TrimRight(strings.ReplaceAll(m[1], `\`, ""), ".…?")
			all = append(all, label{regexp.MustCompile(`(?i)^` + insertion.ReplaceAllString(regexp.QuoteMeta(said), `.+`) + `$`)})
		}
	}
	err := filepath.WalkDir("../web/static/js", func(file string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".js" {
			add(file, scriptText)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"texts_en.go", "texts_bots.go", "texts_own.go"} {
		add("../admin/"+name, manageText)
	}
	if len(all) < 1000 {
		t.Fatalf("only %d texts found", len(all))
	}
	return all
}

// isLabel reports whether the pages say these words, and nothing else in the same place.
func isLabel(all []label, words string) bool {
	words = strings.TrimRight(words, ".…?")
	return slices.ContainsFunc(all, func(l label) bool { return l.MatchString(words) })
}

var (
	fenced     = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	italic     = regexp.MustCompile(`(?m)(^|[^*\w])\*([^*\n]+)\*`)
	bold       = regexp.MustCompile(`\*\*([^*\n]+)\*\*`)
	typed      = regexp.MustCompile("`([^`\n]+)`")
	starNumber = regexp.MustCompile(`^\d: `) // a screen reader hears it in front of what the star means
)

// document reads one without its blocks of code.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return fenced.ReplaceAllString(string(text), "")
}

// TestGuide: what docs/desk.md has in italics are words of the pages. So a button that gets another name, or goes, is
// missed in the document.
func TestGuide(t *testing.T) {
	all, found := labels(t), 0
	for _, m := range italic.FindAllStringSubmatch(bold.ReplaceAllString(document(t, guide), ""), -1) {
		if found++; !isLabel(all, m[2]) {
			t.Errorf("%s: no page says %q", guide, m[2])
		}
	}
	if found < 100 {
		t.Errorf("only %d words of the pages are found in %s", found, guide)
	}
}

// TestFirstDayNamesLabels: what docs/desk-first-day.md has in bold are words of the pages, or what somebody has typed. No
// step has a mark that TestFirstDay would pass over.
func TestFirstDayNamesLabels(t *testing.T) {
	all, text := labels(t), document(t, firstDay)
	entered := []string{"Enter", "Agent"} // a key; the name of the first account
	for _, m := range typed.FindAllStringSubmatch(text, -1) {
		entered = append(entered, m[1])
	}
	found := 0
	for _, s := range stepsOf(t, text) {
		if _, rest := s.deedsOf(); strings.ContainsAny(rest, marks) {
			t.Errorf("%s, %s: something is marked that nobody does or sees: %s", firstDay, s.name, rest)
		}
		for _, m := range bold.FindAllStringSubmatch(s.text, -1) {
			if found++; !isLabel(all, starNumber.ReplaceAllString(m[1], "")) && !slices.Contains(entered, m[1]) {
				t.Errorf("%s, %s: no page says %q", firstDay, s.name, m[1])
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d words of the pages are found in %s", found, firstDay)
	}
}

// TestGuideRules: the documents are read correctly, so that the tests of them mean something.
func TestGuideRules(t *testing.T) {
	all := labels(t)
	for words, is := range map[string]bool{
		"Take this chat": true, "take chats while online": true, "Lin joined the chat": true, "Routing rules: 3": true, "Add a bot with rules": true, "Your name (optional)": true,
		"Take this": false, "Take this chat now": false, "Frobnicate": false, "": false,
	} {
		if isLabel(all, words) != is {
			t.Errorf("%q is a label: %v", words, !is)
		}
	}
	steps := stepsOf(t, "# T\n\n## A\n\n1. *You* open `/x`, enter `a b`\n   in **Name**, and press **Save**:\n\n   ```sh\n   eddy desk --x\n     y\n   ```\n\n   It says “done”.\n\n2. Lin\n   closes the page.\n\nAfter it.\n\n## B\n\n1. A mail comes to `a@b`: “hi”. *Save* `c`\n")
	if len(steps) != 3 || steps[0].commands != "eddy desk --x\n  y\n" || steps[2].name != "B, step 1" {
		t.Fatalf("%+v", steps)
	}
	for i, want := range []string{"who=You open=/x field=Name value=a b press=Save see=done", "close=closes the page", "mail=hi to=a@b"} {
		deeds, rest := steps[i].deedsOf()
		var got []string
		for _, d := range deeds {
			for _, part := range []string{"who", "open", "copy", "field", "value", "press", "see", "close", "mail", "to"} {
				if d[part] != "" {
					got = append(got, part+"="+d[part])
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", steps[i].name, got, want)
		}
		if marked := strings.ContainsAny(rest, marks); marked != (i == 2) {
			t.Errorf("%s: what is left is %q", steps[i].name, rest)
		}
	}
}
