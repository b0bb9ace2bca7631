// Package version tells what the running program was built from.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Set by the linker in release builds (scripts/release). These leave version control out of the binary, so that the
// binary is the same wherever it is built.
var number, commit, date string

// Unknown is the version of a program that does not say what it is.
const Unknown = "unknown"

// Info is what is known about a binary. Strings are empty where nothing is known.
type Info struct {
	Version  string `json:"version"`          // v1.2.3 of a release; devel-REVISION of a working tree
	Commit   string `json:"commit,omitempty"` // the whole hash
	Date     string `json:"date,omitempty"`   // of the commit, RFC 3339, UTC
	Modified bool   `json:"modified"`         // the working tree had changes that the commit lacks
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Get returns what is known about this program. Any goroutine.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = nil
	}
	return of(build, number, commit, date)
}

// of joins what the linker has set with what the build recorded.
func of(build *debug.BuildInfo, number, commit, date string) Info {
	i := Info{Version: number, Commit: commit, Date: date, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	i.Modified = strings.HasSuffix(number, modified)
	if build == nil {
		if i.Version == "" {
			i.Version = Unknown
		}
		return i
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.Date = utc(s.Value)
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	if i.Version == "" {
		i.Version = named(build.Main.Version, i.Commit, i.Modified)
	}
	return i
}

const modified = "-modified"

// named returns the version of a binary that is no release: the module's version if it was installed as one, else the
// revision.
func named(module, commit string, dirty bool) string {
	switch {
	case module != "" && module != "(devel)":
		return module
	case commit == "":
		return "devel"
	case dirty:
		return "devel-" + short(commit) + modified
	}
	return "devel-" + short(commit)
}

func short(commit string) string { return commit[:min(12, len(commit))] }

// utc converts a time that git writes with its zone to UTC.
func utc(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return t.UTC().Format(time.RFC3339)
}

// String returns one line: version, commit and date in brackets, Go, platform.
func (i Info) String() string {
	var details []string
	if i.Commit != "" && !strings.Contains(i.Version, short(i.Commit)) {
		details = append(details, short(i.Commit))
	}
	if i.Date != "" {
		details = append(details, i.Date)
	}
	if i.Modified && !strings.Contains(i.Version, "+dirty") && !strings.HasSuffix(i.Version, modified) {
		details = append(details, "modified")
	}
	text := i.Version
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	return fmt.Sprintf("%s %s %s/%s", text, i.Go, i.OS, i.Arch)
}
