package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(t *terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		RunE: func(*cobra.Command, []string) error {
			t.say("eddy %s %s %s/%s", version(debug.ReadBuildInfo()), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// version names the module version, or the revision a working tree was built from.
func version(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "unknown"
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	revision, dirty := "devel", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = "devel-" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-modified"
		}
	}
	return revision + dirty
}
