package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	platform := " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	build := func(module string, settings ...string) *debug.BuildInfo {
		b := &debug.BuildInfo{Main: debug.Module{Version: module}}
		for i := 0; i < len(settings); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return b
	}
	for _, c := range []struct {
		name                 string
		build                *debug.BuildInfo
		number, commit, date string
		want                 Info
		text                 string
	}{
		{"nothing known", nil, "", "", "", Info{Version: Unknown}, "unknown"},
		{"a working tree without version control", build("(devel)"), "", "", "", Info{Version: "devel"}, "devel"},
		{"a working tree", build("(devel)", "vcs.revision", revision, "vcs.time", "2026-11-22T09:00:00+01:00", "vcs.modified", "false"), "", "", "",
			Info{Version: "devel-0123456789ab", Commit: revision, Date: "2026-11-22T08:00:00Z"}, "devel-0123456789ab (2026-11-22T08:00:00Z)"},
		{"a changed working tree", build("(devel)", "vcs.revision", revision, "vcs.modified", "true"), "", "", "",
			Info{Version: "devel-0123456789ab-modified", Commit: revision, Modified: true}, "devel-0123456789ab-modified"},
		{"an installed module", build("v0.3.0"), "", "", "", Info{Version: "v0.3.0"}, "v0.3.0"},
		{"what go build names by itself", build("v0.0.0-20261122080000-0123456789ab+dirty", "vcs.revision", revision, "vcs.modified", "true"), "", "", "",
			Info{Version: "v0.0.0-20261122080000-0123456789ab+dirty", Commit: revision, Modified: true}, "v0.0.0-20261122080000-0123456789ab+dirty"},
		{"a changed tag", build("v0.3.0", "vcs.revision", revision, "vcs.modified", "true"), "", "", "",
			Info{Version: "v0.3.0", Commit: revision, Modified: true}, "v0.3.0 (0123456789ab, modified)"},
		{"a release", build("(devel)"), "v0.7.0", revision, "2026-11-22T08:00:00Z",
			Info{Version: "v0.7.0", Commit: revision, Date: "2026-11-22T08:00:00Z"}, "v0.7.0 (0123456789ab, 2026-11-22T08:00:00Z)"},
		{"a release of a changed tree", build("(devel)"), "v0.7.0-modified", revision, "", Info{Version: "v0.7.0-modified", Commit: revision, Modified: true}, "v0.7.0-modified (0123456789ab)"},
		{"a time that is none", build("", "vcs.time", "yesterday"), "", "", "", Info{Version: "devel", Date: "yesterday"}, "devel (yesterday)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Go, c.want.OS, c.want.Arch = runtime.Version(), runtime.GOOS, runtime.GOARCH
			got := of(c.build, c.number, c.commit, c.date)
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if text := got.String(); text != c.text+platform {
				t.Errorf("%q, want %q", text, c.text+platform)
			}
		})
	}
	if got := Get(); got.Version == "" || got.Version == Unknown || !strings.HasPrefix(got.Go, "go") {
		t.Errorf("this program is %+v", got)
	}
}
