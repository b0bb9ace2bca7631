package root

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/internal/version"
)

func newVersion(t *cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary, its commit and what built it",
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(t.Out).Encode(version.Get())
			}
			t.Say("eddy %s", version.Get())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}
