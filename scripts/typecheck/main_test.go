package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// module makes a module of files in a folder of its own, which is the working directory until the test ends.
func module(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module m\n\ngo 1.26\n"
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
}

func TestCheck(t *testing.T) {
	module(t, map[string]string{
		"a.go":                "package m\n\nimport \"m/below\"\n\nvar All = below.Of() + here\n",
		"a_linux.go":          "package m\n\nconst here = 1\n",
		"a_darwin.go":         "package m\n\nconst here = \"1\"\n",
		"a_windows.go":        "package m\n\nimport \"syscall\"\n\nconst here = 1\n\nfunc f() { var h syscall.Handle }\n",
		"a_test.go":           "package m\n\nimport \"testing\"\n\nfunc TestAll(t *testing.T) { var _ uint8 = size }\n",
		"size_test.go":        "package m\n\nconst size = 1 << 8\n",
		"below/b.go":          "package below\n\nfunc Of() int { return 1 << 40 }\n",
		"below/x_test.go":     "package below_test\n\nimport (\n\t\"m/below\"\n\t\"testing\"\n)\n\nfunc TestX(t *testing.T) { below.Of(); below.Inner() }\n",
		"below/inner_test.go": "package below\n\nfunc Inner() {}\n",
	})
	for _, c := range []struct {
		system   string
		tests    bool
		patterns string
		want     []string // an expression for each error
	}{
		{"linux/amd64", false, ".", nil},
		{"linux/amd64", false, "./...", nil},
		{"linux/386", false, ".", nil}, // what is only imported has no bodies
		{"linux/386", false, "./...", []string{`linux/386: .*b\.go:3:24: .*overflows`}},
		{"darwin/arm64", false, ".", []string{`darwin/arm64: .*a\.go:5:\d+: .*mismatched types`}},
		{"windows/amd64", false, "./...", []string{`windows/amd64: .*a_windows\.go:7:16: declared and not used: h`}},
		{"linux/amd64", true, ".", []string{`linux/amd64: .*a_test\.go:5:44: .*overflows`}},
		{"linux/amd64", true, "./below", nil},
		{"linux/pdp11", false, ".", []string{`linux/pdp11: no processor "pdp11"`}},
		{"linux/amd64", false, "m/none/...", []string{`linux/amd64: no packages are in m/none/...`}},
		{"linux/amd64", false, "./missing", []string{`linux/amd64: go list: exit status 1`}},
	} {
		_, err := check(c.system, c.tests, []string{c.patterns})
		var got []string
		if err != nil {
			got = strings.Split(err.Error(), "\n"+c.system)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s %s, tests %t: %v", c.system, c.patterns, c.tests, err)
			continue
		}
		for i, want := range c.want {
			if !regexp.MustCompile(want).MatchString(err.Error()) {
				t.Errorf("%s %s, tests %t: error %d is %q; want %s", c.system, c.patterns, c.tests, i, got[i], want)
			}
		}
	}
}

// TestThisModule: as this system has them, the packages of the command are right.
func TestThisModule(t *testing.T) {
	if checked, err := check("linux/amd64", true, []string{"."}); err != nil || checked != 2 {
		t.Errorf("%d packages, %v; want the command, and the command with its tests", checked, err)
	}
}
