package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

const seconds = "1795334400" // 2026-11-22T08:00:00Z

// built are the modules of a binary as the build recorded them; one of them is in the binary for Linux only.
func built(t *testing.T, path string) *buildinfo.BuildInfo {
	t.Helper()
	sums, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	info := &buildinfo.BuildInfo{GoVersion: "go1.26.0"}
	for line := range strings.Lines(string(sums)) {
		f := strings.Fields(line)
		if f[0] == "github.com/spf13/cobra" || f[0] == "golang.org/x/sys" && strings.HasSuffix(path, "linux") {
			if !strings.HasSuffix(f[1], "/go.mod") {
				info.Deps = append(info.Deps, &debug.Module{Path: f[0], Version: f[1], Sum: f[2]})
			}
		}
	}
	return info
}

// packed packs two binaries and returns the directory of the result.
func packed(t *testing.T, change func(*release)) (string, error) {
	t.Helper()
	out := t.TempDir()
	args := []string{"-version", "v0.7.0", "-date", seconds, "-module", "../..", "-out", out, "-with", "../../LICENSE", "-linux", "main_test.go"}
	for _, platform := range []string{"windows", "linux"} {
		file := filepath.Join(t.TempDir(), platform)
		if err := os.WriteFile(file, []byte("a binary for "+platform), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, platform+"/amd64="+file)
	}
	r, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	r.read = func(path string) (*buildinfo.BuildInfo, error) { return built(t, path), nil }
	if change != nil {
		change(r)
	}
	return out, r.pack()
}

// TestPack: archives with all files and nothing of the machine that made them, sums that are right, and the same bytes again.
func TestPack(t *testing.T) {
	out, err := packed(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := packed(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if other, err := os.ReadFile(filepath.Join(again, "SHA256SUMS")); err != nil || !bytes.Equal(sums, other) {
		t.Errorf("packed twice: %v\n%s\n%s", err, sums, other)
	}
	var names []string
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		names = append(names, name)
		if got, err := sumOf(filepath.Join(out, name)); err != nil || got != sum {
			t.Errorf("%s has the sum %s, not %s, %v", name, got, sum, err)
		}
	}
	if want := []string{"eddy-v0.7.0-linux-amd64.tar.gz", "eddy-v0.7.0-windows-amd64.zip", "eddy-v0.7.0.cdx.json"}; !slices.Equal(names, want) {
		t.Errorf("made %q, want %q", names, want)
	}
	checkTar(t, filepath.Join(out, names[0]))
	checkZip(t, filepath.Join(out, names[1]))
}

func checkTar(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.FileInfo().Mode().String()+" "+h.Name)
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "root" || !h.ModTime.Equal(time.Unix(1795334400, 0)) {
			t.Errorf("%s: %d:%d %s, %v", h.Name, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
	}
	if want := []string{"-rwxr-xr-x eddy-v0.7.0-linux-amd64/eddy", "-rw-r--r-- eddy-v0.7.0-linux-amd64/LICENSE", "-rw-r--r-- eddy-v0.7.0-linux-amd64/main_test.go"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func checkZip(t *testing.T, path string) {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var got []string
	for _, f := range z.File {
		got = append(got, f.Mode().String()+" "+f.Name)
		if !f.Modified.Equal(time.Unix(1795334400, 0)) {
			t.Errorf("%s: %v", f.Name, f.Modified)
		}
	}
	if want := []string{"-rwxr-xr-x eddy-v0.7.0-windows-amd64/eddy.exe", "-rw-r--r-- eddy-v0.7.0-windows-amd64/LICENSE"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestModules: the list has the modules of the binary, with the versions and sums of the build, and the standard library.
func TestModules(t *testing.T) {
	out, err := packed(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "eddy-v0.7.0.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list bom
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if list.Format != "CycloneDX" || list.Spec != "1.5" || list.Metadata.Timestamp != "2026-11-22T08:00:00Z" || list.Metadata.Component.Version != "v0.7.0" || len(list.Serial) != len("urn:uuid:")+36 {
		t.Errorf("%+v", list)
	}
	info := built(t, "linux")
	if len(info.Deps) != 2 {
		t.Fatalf("go.sum has changed its form: %+v", info.Deps)
	}
	want := []string{"std go1.26.0 ", info.Deps[0].Path + " " + info.Deps[0].Version + " ", info.Deps[1].Path + " " + info.Deps[1].Version + " linux/amd64"}
	var got, refs []string
	for _, c := range list.Components {
		in := ""
		if len(c.Properties) > 0 {
			in = c.Properties[0].Value
		}
		got = append(got, c.Name+" "+c.Version+" "+in)
		refs = append(refs, c.Ref)
		if c.Name != "std" && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("%s has the sums %v", c.Name, c.Hashes)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(list.Dependencies) != 1 || !slices.Equal(list.Dependencies[0].DependsOn, refs) || list.Dependencies[0].Ref != list.Metadata.Component.Ref {
		t.Errorf("dependencies %+v", list.Dependencies)
	}
}

// TestRequired: what go.mod and go.sum do not have is refused.
func TestRequired(t *testing.T) {
	dir := t.TempDir()
	r := &release{module: dir}
	if r.required("example.com/a", "v1.0.0", "h1:x") == nil {
		t.Error("without go.mod")
	}
	for name, text := range map[string]string{
		"go.mod": "module m\n\nrequire example.com/one v1.0.0\n\nrequire (\n\texample.com/a v1.0.0\n\texample.com/b v1.1.0 // indirect\n)\n",
		"go.sum": "example.com/a v1.0.0 h1:x\nexample.com/b v1.1.0 h1:y\nexample.com/one v1.0.0 h1:z\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for module, ok := range map[[3]string]bool{
		{"example.com/a", "v1.0.0", "h1:x"}:   true,
		{"example.com/b", "v1.1.0", "h1:y"}:   true,
		{"example.com/one", "v1.0.0", "h1:z"}: true,
		{"example.com/a", "v1.0.1", "h1:x"}:   false,
		{"example.com/a", "v1.0.0", "h1:y"}:   false,
		{"example.com/c", "v1.0.0", "h1:x"}:   false,
	} {
		if err := r.required(module[0], module[1], module[2]); (err == nil) != ok {
			t.Errorf("%v: %v", module, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-version", "v0.7.0"},
		{"linux/amd64=x"},
		{"-version", "v0.7.0", "linux=x"},
		{"-version", "v0.7.0", "linux/amd64"},
		{"-version", "v0.7.0", "-out", t.TempDir(), "linux/amd64=no-such-file"},
		{"-version", "v0.7.0", "-out", t.TempDir(), "linux/amd64=main_test.go"}, // which is no binary
	} {
		if err := run(args); err == nil {
			t.Errorf("pack %q went well", args)
		}
	}
	for what, change := range map[string]func(*release){
		"a file that does not exist":        func(r *release) { r.with = append(r.with, "no-such-file") },
		"a file of which no binary is made": func(r *release) { r.read = buildinfo.ReadFile },
		"a module that go.mod does not have": func(r *release) {
			r.read = func(string) (*buildinfo.BuildInfo, error) {
				return &buildinfo.BuildInfo{Deps: []*debug.Module{{Path: "example.com/a", Version: "v1.0.0", Sum: "h1:eA=="}}}, nil
			}
		},
		"a replaced module": func(r *release) {
			r.read = func(path string) (*buildinfo.BuildInfo, error) {
				info := built(t, path)
				info.Deps[0].Replace = &debug.Module{Path: "../mine"}
				return info, nil
			}
		},
		"two versions of Go": func(r *release) {
			r.read = func(path string) (*buildinfo.BuildInfo, error) {
				info := built(t, path)
				info.GoVersion += filepath.Base(path)
				return info, nil
			}
		},
	} {
		if _, err := packed(t, change); err == nil {
			t.Errorf("packed: %s", what)
		}
	}
	if _, err := moduleComponent("example.com/a", "v1.0.0", ""); err == nil {
		t.Error("a module without a sum")
	}
	if _, err := moduleComponent("example.com/a", "v1.0.0", "h1:%"); err == nil {
		t.Error("a sum that is none")
	}
}
