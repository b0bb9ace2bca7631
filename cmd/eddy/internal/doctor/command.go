package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/serving"
)

// mostConns bounds --conns. A larger number is more likely a typing error than a machine.
const mostConns = 100_000_000

// errUnfit is the outcome of an examination in which something failed.
var errUnfit = errors.New("this machine is not fit for it: see the lines that begin with FAIL")

// Command builds the command.
func Command(t *cli.Terminal) *cobra.Command {
	var q Question
	var pair serving.TLSFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine this machine: does it grant what a number of connections needs, and what to do where not",
		Long: "Examine this machine: descriptors, listen queue, source ports, memory, processors, pollers, clock, and the files that you name. Exit code 0:\n" +
			"nothing fails; 1: something does; 2: it was asked wrongly. Run it as the user of the server, where the server runs: limits differ.",
		Example:     "  eddy doctor\n  eddy doctor --conns 50000 --port 443 --tls-cert desk.pem --tls-key desk-key.pem --data /var/lib/eddy-desk",
		Annotations: map[string]string{cli.UsageCodeKey: ""},
		RunE: func(*cobra.Command, []string) error {
			if err := pair.Check(); err != nil {
				return &cli.ExitError{Err: err, Code: cli.UsageCode}
			}
			if q.Conns < 0 || q.Conns > mostConns {
				return &cli.ExitError{Err: fmt.Errorf("--conns %d is out of range: use 1 to %d, or 0 to leave it open", q.Conns, mostConns), Code: cli.UsageCode}
			}
			if q.Port < 0 || q.Port > 65535 {
				return &cli.ExitError{Err: fmt.Errorf("--port %d is no port: use 1 to 65535", q.Port), Code: cli.UsageCode}
			}
			q.TLSCert, q.TLSKey = pair.Cert, pair.Key
			return examine(t, Machine(), q, asJSON)
		},
	}
	cmd.Flags().IntVar(&q.Conns, "conns", 0, "connections that the server is to have")
	cmd.Flags().IntVar(&q.Port, "port", 0, "port that the server is to listen on")
	cmd.Flags().StringVar(&pair.Cert, "tls-cert", "", "PEM file with the certificate chain")
	cmd.Flags().StringVar(&pair.Key, "tls-key", "", "PEM file with its key")
	cmd.Flags().StringVar(&q.DataDir, "data", "", "data directory of a Desk")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

// examine prints the report. The error says that something failed.
func examine(t *cli.Terminal, s System, q Question, asJSON bool) error {
	r := Examine(s, q)
	var err error
	if asJSON {
		encoder := json.NewEncoder(t.Out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(r)
	} else {
		err = r.Write(t.Out, os.Getenv("NO_COLOR") == "" && cli.IsTerminal(t.Out))
	}
	if err == nil && !r.Healthy {
		err = errUnfit
	}
	return err
}
