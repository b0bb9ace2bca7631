package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The document is CycloneDX 1.5, as far as the build information of Go fills it: https://cyclonedx.org/docs/1.5/json/.
type (
	bom struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		URL        string     `json:"purl,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Licenses   []license  `json:"licenses,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
	license struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// modules writes the list of all modules that are in any of the binaries, with the binaries that have them, and returns the file's name.
func (r *release) modules() (string, error) {
	all := map[string]*component{} // by reference
	in := map[string][]string{}    // platforms, by reference
	goVersion := ""
	for _, platform := range r.platforms() {
		info, err := r.read(r.bins[platform])
		if err != nil {
			return "", fmt.Errorf("the binary for %s: %w", platform, err)
		}
		if goVersion != "" && goVersion != info.GoVersion {
			return "", fmt.Errorf("the binary for %s was built by %s, others by %s", platform, info.GoVersion, goVersion)
		}
		goVersion = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				return "", fmt.Errorf("the binary for %s has %s replaced by %s: a release has what go.mod names", platform, m.Path, m.Replace.Path)
			}
			if err := r.required(m.Path, m.Version, m.Sum); err != nil {
				return "", fmt.Errorf("the binary for %s: %w", platform, err)
			}
			c, err := moduleComponent(m.Path, m.Version, m.Sum)
			if err != nil {
				return "", err
			}
			all[c.Ref] = c
			in[c.Ref] = append(in[c.Ref], platform)
		}
	}
	b := r.document(goVersion)
	for _, ref := range slices.Sorted(maps.Keys(all)) {
		c := all[ref]
		if len(in[ref]) < len(r.bins) {
			c.Properties = []property{{"eddy:platforms", strings.Join(in[ref], ", ")}}
		}
		b.Components = append(b.Components, *c)
		b.Dependencies[0].DependsOn = append(b.Dependencies[0].DependsOn, ref)
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return "", err
	}
	name := "eddy-" + r.version + ".cdx.json"
	return name, os.WriteFile(filepath.Join(r.out, name), append(text, '\n'), 0o644)
}

// required reports a module that go.mod does not require in this version, or go.sum knows by another sum.
func (r *release) required(path, version, sum string) error {
	for file, want := range map[string]string{"go.mod": path + " " + version, "go.sum": path + " " + version + " " + sum} {
		text, err := os.ReadFile(filepath.Join(r.module, file))
		if err != nil {
			return err
		}
		has := func(line string) bool {
			line = strings.TrimPrefix(strings.TrimSpace(line), "require ")
			return line == want || strings.HasPrefix(line, want+" //")
		}
		if !slices.ContainsFunc(strings.Split(string(text), "\n"), has) {
			return fmt.Errorf("%s does not have %q", file, want)
		}
	}
	return nil
}

// document has the program itself, and the standard library, which is part of every binary.
func (r *release) document(goVersion string) *bom {
	const path = "github.com/go-eddy/eddy"
	self := component{Type: "application", Ref: "pkg:golang/" + path + "@" + r.version, Name: path, Version: r.version}
	self.URL = self.Ref
	self.Licenses = make([]license, 1)
	self.Licenses[0].License.ID = "Apache-2.0"
	library := component{Type: "library", Ref: "pkg:golang/std@" + strings.TrimPrefix(goVersion, "go"), Name: "std", Version: goVersion}
	library.URL = library.Ref
	return &bom{
		Format: "CycloneDX", Spec: "1.5", Serial: r.serial(), Version: 1,
		Metadata:     metadata{r.date.Format(time.RFC3339), self},
		Components:   []component{library},
		Dependencies: []dependency{{self.Ref, []string{library.Ref}}},
	}
}

// serial is a name for this list, made from what it is about, so that the same release has the same (RFC 9562, version 8).
func (r *release) serial() string {
	sum := sha256.Sum256([]byte(r.version + " " + r.date.String() + " " + strings.Join(r.platforms(), " ")))
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// moduleComponent describes one module. sum is that of go.sum: "h1:" and the base64 of a SHA-256 over the sums of the module's files.
func moduleComponent(path, version, sum string) (*component, error) {
	c := &component{Type: "library", Name: path, Version: version, URL: "pkg:golang/" + strings.ToLower(path) + "@" + version}
	c.Ref = c.URL
	raw, ok := strings.CutPrefix(sum, "h1:")
	if !ok {
		return nil, fmt.Errorf("module %s %s has no sum: it does not come from where go.sum says", path, version)
	}
	digest, err := base64.StdEncoding.DecodeString(raw)
	if err != nil {
		return nil, fmt.Errorf("module %s %s has the sum %q: %w", path, version, sum, err)
	}
	c.Hashes = []hash{{"SHA-256", hex.EncodeToString(digest)}}
	return c, nil
}
