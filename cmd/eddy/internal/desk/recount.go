package desk

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/store"
)

func newRecount(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "recount",
		Short: "Count the numbers of the reports anew; the Desk must be stopped",
		Long: "Count the numbers of the reports anew, from what each conversation has counted. They are kept in order by themselves; this is for a database\n" +
			"that was changed by other programs, or repaired.",
		Example: "  eddy desk recount --data /var/lib/eddy-desk",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := desk.inspect(cmd.Context()); err != nil {
				return err
			}
			dir, err := datadir.Lock(cmd.Context(), desk.data)
			if err != nil {
				return err
			}
			return withData(cmd.Context(), t, desk, dir, func(ctx context.Context, db store.Store) error {
				wrong, err := db.Recount(ctx)
				switch {
				case err != nil:
				case wrong == 0:
					t.Say("eddy: all numbers of the reports in %s are right", desk.place())
				default:
					t.Say("eddy: %d numbers of the reports in %s were wrong and are right now", wrong, desk.place())
				}
				return err
			})
		},
	}
}
