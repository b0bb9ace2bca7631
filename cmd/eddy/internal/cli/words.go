package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	slices.Sort(names)
	best, least := "", 3
	for _, name := range names {
		if d := distance(typed, name); d < least || strings.HasPrefix(name, typed) && best == "" {
			best, least = name, min(d, least)
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// distance is the Levenshtein distance of two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(diagonal+cost, row[j]+1, row[j+1]+1)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
