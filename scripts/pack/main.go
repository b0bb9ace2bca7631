// Command pack makes what a release consists of from binaries that are built: an archive for each platform, a list of the modules in them
// (CycloneDX) and SHA256SUMS. The same input gives the same bytes. scripts/release calls it.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "pack: %v\n", err)
		os.Exit(1)
	}
}

// release is what is packed.
type release struct {
	version string
	date    time.Time
	out     string            // directory
	with    []string          // files that every archive has beside the binary
	linux   []string          // and those for Linux
	module  string            // directory of go.mod and go.sum
	bins    map[string]string // by platform, such as linux/amd64
	read    func(path string) (*buildinfo.BuildInfo, error)
}

func run(args []string) error {
	r, err := parse(args)
	if err != nil {
		return err
	}
	return r.pack()
}

func parse(args []string) (*release, error) {
	flags := flag.NewFlagSet("pack", flag.ContinueOnError)
	r := &release{bins: map[string]string{}, read: buildinfo.ReadFile}
	date := flags.Int64("date", 0, "seconds since 1970: the time of every file in the archives")
	flags.StringVar(&r.version, "version", "", "of the release, such as v0.7.0")
	flags.StringVar(&r.out, "out", "dist", "directory for the results")
	flags.StringVar(&r.module, "module", ".", "directory of go.mod and go.sum, which the modules in the binaries are held against")
	flags.Func("with", "file that every archive has; repeat it", func(s string) error { r.with = append(r.with, s); return nil })
	flags.Func("linux", "file that the archives for Linux have; repeat it", func(s string) error { r.linux = append(r.linux, s); return nil })
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	r.date = time.Unix(*date, 0).UTC()
	for _, arg := range flags.Args() {
		platform, file, ok := strings.Cut(arg, "=")
		if !ok || !strings.Contains(platform, "/") {
			return nil, fmt.Errorf("%q is not SYSTEM/PROCESSOR=FILE", arg)
		}
		r.bins[platform] = file
	}
	if r.version == "" || len(r.bins) == 0 {
		return nil, fmt.Errorf("-version and at least one SYSTEM/PROCESSOR=FILE are needed")
	}
	return r, nil
}

// pack writes all files and then their sums.
func (r *release) pack() error {
	var made []string
	for _, platform := range r.platforms() {
		archive, err := r.archive(platform)
		if err != nil {
			return err
		}
		made = append(made, archive)
	}
	list, err := r.modules()
	if err != nil {
		return err
	}
	return r.sums(append(made, list))
}

func (r *release) platforms() []string {
	var all []string
	for p := range r.bins {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// sums writes SHA256SUMS, which "sha256sum -c" reads.
func (r *release) sums(names []string) error {
	var b strings.Builder
	for _, name := range names {
		sum, err := sumOf(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
