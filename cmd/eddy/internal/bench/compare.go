package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/measured"
)

func newCompare(t *cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "compare BASE.json OTHER.json...",
		Short: "Compare runs of \"eddy bench … --json\", with confidence intervals",
		Long: "Each argument is a side: a file with the runs of \"eddy bench … --json\", or several such files separated by commas. Every side is compared\n" +
			"with the first. A difference is told when its interval of 95 % confidence (Welch, on logarithms) leaves out 1; at least three runs a side\n" +
			"are needed. Let the sides take turns on a quiet machine: docs/bench.md.",
		Example: "  for i in 1 2 3 4 5; do\n    eddy bench echo --addr :7001 --json >>a.json\n    eddy bench echo --addr :7002 --json >>b.json\n  done\n  eddy bench compare a.json b.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("%d files are nothing to compare: name two or more, such as \"eddy bench compare a.json b.json\"", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return compare(t, args, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON")
	return cmd
}

func compare(t *cli.Terminal, args []string, asJSON bool) error {
	var sides []measured.Side
	for _, arg := range args {
		s := measured.Side{Name: arg}
		for name := range strings.SplitSeq(arg, ",") {
			runs, err := measured.ReadFile(name)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: write one with \"eddy bench … --json >%s\"", err, name)
			}
			if err != nil {
				return err
			}
			s.Runs = append(s.Runs, runs...)
		}
		sides = append(sides, s)
	}
	rows, err := measured.Compare(sides)
	if err != nil {
		return err
	}
	for _, d := range measured.Differences(sides) {
		t.Note("the runs differ in %s: the figures do not compare the servers alone", d)
	}
	if asJSON {
		return json.NewEncoder(t.Out).Encode(rows)
	}
	measured.PrintComparison(t.Out, sides, rows)
	return nil
}
