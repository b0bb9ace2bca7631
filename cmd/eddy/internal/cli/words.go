package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-eddy/eddy/internal/nearest"
)

// NeedsCommand is the body of a command that only groups others.
func NeedsCommand(what string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%q needs one of %s; see \"%s --help\"", cmd.CommandPath(), what, cmd.CommandPath())
	}
}

// Kind names a flag's type the way a person would.
func Kind(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "number"
	case "duration":
		return "duration such as 10s or 1m30s"
	case "size":
		return "size such as 512KiB, 20MiB or 10GiB"
	}
	return f.Value.Type()
}

// Meant suggests the name that was probably meant, "" if none is near.
func Meant(typed string, names []string) string {
	if best := nearest.Name(typed, names); best != "" {
		return fmt.Sprintf(" (did you mean %s?)", best)
	}
	return ""
}
