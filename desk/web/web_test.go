package web

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Patterns of the references between files. All of them are either /assets/…
// or relative to the file they stand in.
var (
	htmlRef   = regexp.MustCompile(`(?:src|href)="([^"]*)"`)
	cssRef    = regexp.MustCompile(`url\(\s*['"]?([^'")]+)`)
	importRef = regexp.MustCompile(`(?m)(?:^|\s)(?:import|from)\s*['"]([^'"]+)['"]`)
	lazyRef   = regexp.MustCompile(`\simport\('([^']+)'\)`) // of a module that few pages come to need
	iconRef   = regexp.MustCompile(`['"](/assets/[^'"]+)['"]`)
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(Files(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

// worker is the console's service worker, which the page names by the address it is served at.
const worker = "console-worker.js"

// refs returns the files that name refers to. Page addresses (/, /console,
// /chat/demo, /wall, /admin) are no files and are left out.
func refs(t *testing.T, name string) []string {
	t.Helper()
	pattern := map[string]*regexp.Regexp{".html": htmlRef, ".css": cssRef, ".js": importRef, ".webmanifest": iconRef}[path.Ext(name)]
	if name == worker {
		pattern = iconRef
	}
	if pattern == nil {
		return nil
	}
	var out []string
	for _, m := range pattern.FindAllSubmatch(read(t, name), -1) {
		ref := string(m[1])
		switch {
		case strings.HasPrefix(ref, "/assets/"):
			out = append(out, strings.TrimPrefix(ref, "/assets/"))
		case strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../"):
			out = append(out, path.Join(path.Dir(name), ref))
		case ref == "/widget.js":
			out = append(out, "widget.js")
		case slices.Contains([]string{"/console", "/chat/demo", "/shop", "/wall", "/wall/reports", "/admin", "/admin/contacts", "/reset"}, ref) || strings.HasPrefix(ref, "#"):
		default:
			t.Errorf("%s refers to %q: only /assets/ and relative paths are served", name, ref)
		}
	}
	return out
}

// closure returns name and everything it loads, directly or not.
func closure(t *testing.T, name string) []string {
	t.Helper()
	seen := []string{name}
	for i := 0; i < len(seen); i++ {
		for _, ref := range refs(t, seen[i]) {
			if !slices.Contains(seen, ref) {
				seen = append(seen, ref)
			}
		}
	}
	return seen
}

func allFiles(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func zipped(t *testing.T, data []byte) int {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

func TestPagesStayWithinTheirBudget(t *testing.T) {
	sizes := make(map[string]int) // as they are sent
	for page, limit := range map[string]int{"customer.html": 60 << 10, "console.html": 150 << 10, "index.html": 60 << 10, "widget.js": 6 << 10, "shop.html": 60 << 10, "reset.html": 60 << 10} {
		total := 0
		files := closure(t, page)
		for _, name := range files {
			if sizes[name] == 0 {
				sizes[name] = zipped(t, Lean(name, read(t, name)))
			}
			total += sizes[name]
		}
		t.Logf("%s: %d files, %d bytes gzip of %d", page, len(files), total, limit)
		if total > limit {
			t.Errorf("%s and what it loads: %d bytes gzip, the budget is %d", page, total, limit)
		}
	}
}

func TestEveryReferenceExistsAndEveryFileIsUsed(t *testing.T) {
	var used []string
	for _, page := range []string{"index.html", "customer.html", "console.html", "forbidden.html", "missing.html", "shop.html", "wall.html", "reports.html", "reset.html", worker} {
		for _, name := range closure(t, page) {
			read(t, name)
			used = append(used, name)
		}
	}
	pages, err := filepath.Glob("../admin/templates/*.html") // made by the server
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\.Asset "([^"]+)"`).FindAllSubmatch(text, -1) {
			used = append(used, closure(t, string(m[1]))...)
		}
	}
	for _, name := range slices.Clone(used) {
		for _, m := range lazyRef.FindAllSubmatch(read(t, name), -1) {
			used = append(used, closure(t, path.Join(path.Dir(name), string(m[1])))...)
		}
	}
	for _, name := range allFiles(t) {
		if !slices.Contains(used, name) && path.Dir(name) != "lang" { // those the server names in the customer page
			t.Errorf("%s is embedded but no page loads it", name)
		}
	}
}

// Pages share the modules of js/core, and load none of another page's folder.
func TestFoldersImportOnlyCore(t *testing.T) {
	for _, name := range allFiles(t) {
		dir := path.Dir(name)
		if path.Ext(name) != ".js" || !strings.HasPrefix(dir, "js/") {
			continue
		}
		for _, ref := range refs(t, name) {
			if to := path.Dir(ref); to != dir && to != "js/core" {
				t.Errorf("%s imports %s", name, ref)
			}
		}
	}
}

// A module that is not preloaded costs a round trip after its importer.
func TestCustomerPagePreloadsItsModules(t *testing.T) {
	direct := refs(t, "customer.html")
	for _, name := range closure(t, "customer.html") {
		if path.Ext(name) == ".js" && !slices.Contains(direct, name) {
			t.Errorf("customer.html does not preload %s", name)
		}
	}
}

func TestModulesNeverParseTextAsMarkup(t *testing.T) {
	forbidden := []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "new Function", "createContextualFragment", "DOMParser", "srcdoc", "javascript:"}
	eval := regexp.MustCompile(`\beval\b`)
	for _, name := range allFiles(t) {
		if path.Ext(name) != ".js" {
			continue
		}
		script := read(t, name)
		for _, word := range forbidden {
			if bytes.Contains(script, []byte(word)) {
				t.Errorf("%s uses %s", name, word)
			}
		}
		if eval.Match(script) {
			t.Errorf("%s uses eval", name)
		}
	}
}

// The pages run under a policy without 'unsafe-inline'.
func TestPagesHoldNothingInline(t *testing.T) {
	checks := map[string]*regexp.Regexp{
		"an inline script":         regexp.MustCompile(`<script(?:\s+type="module")?\s*>|<script[^>]*>\s*[^<\s]`),
		"a style element":          regexp.MustCompile(`<style`),
		"a style attribute":        regexp.MustCompile(`\sstyle\s*=`),
		"an event attribute":       regexp.MustCompile(`\son[a-z]+\s*=`),
		"a frame or an object":     regexp.MustCompile(`<(?:iframe|object|embed|base)\b`),
		"a reference to elsewhere": regexp.MustCompile(`(?:src|href|action)="(?:https?:)?//`),
	}
	for _, name := range allFiles(t) {
		if path.Ext(name) != ".html" {
			continue
		}
		for what, pattern := range checks {
			if m := pattern.Find(read(t, name)); m != nil {
				t.Errorf("%s holds %s: %s", name, what, m)
			}
		}
	}
}

// Nothing is loaded from another origin, and no style sheet brings its own colours past the tokens.
func TestStylesUseTokensOnly(t *testing.T) {
	elsewhere := regexp.MustCompile(`@import|https?://`)
	colour := regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b`)
	for _, name := range allFiles(t) {
		if path.Ext(name) != ".css" {
			continue
		}
		data := read(t, name)
		if m := elsewhere.Find(data); m != nil {
			t.Errorf("%s loads from elsewhere: %s", name, m)
		}
		if m := colour.Find(data); m != nil && name != "css/tokens.css" {
			t.Errorf("%s has the colour %s; colours belong into tokens.css", name, m)
		}
	}
}
