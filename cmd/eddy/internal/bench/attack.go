package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/load"
	"github.com/go-eddy/eddy/cmd/eddy/internal/measured"
	"github.com/go-eddy/eddy/internal/version"
)

// newAttack builds the command for one kind of attack.
func newAttack(t *cli.Terminal, kind string) *cobra.Command {
	o := load.AttackOptions{Kind: kind}
	var f benchFlags
	about := map[string]struct{ short, long, protocol string }{
		load.SlowReader: {"Connections that ask and do not read, and what others feel of them", "--attackers connections ask as fast as the server takes it and read no answer. What the server did with them is told: closed, paused (it takes\nnothing any more), or open and taking more.", "echo"},
		load.Slowloris:  {"Connections that never finish their request, and what others feel of them", "--attackers connections begin a request and send the rest of it in pieces, one every --every, never the last one. What the server did with\nthem is told.", "http"},
	}[kind]
	cmd := &cobra.Command{
		Use:   kind,
		Short: about.short,
		Long: about.long + " One that was closed comes back. --conns victims behave, with requests at\n" +
			"--rate; they are measured for --duration undisturbed and for as long beside the attackers.",
		Example: fmt.Sprintf("  eddy bench %s --protocol %s --attackers 100 --duration 30s", kind, about.protocol),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Options, o.InFlight = f.Options, load.DefaultInFlight(f.Size)
			if o.Protocol == "http" && !cmd.Flags().Changed("size") {
				o.Size = 0
			}
			return attack(t, o, f.asJSON)
		},
	}
	f.register(cmd, 10)
	f.registerRequest(cmd, "")
	fl := cmd.Flags()
	fl.StringVar(&f.Protocol, "protocol", about.protocol, "what the server speaks")
	fl.IntVar(&o.Attackers, "attackers", 100, "connections that do not behave")
	if kind == load.Slowloris {
		fl.DurationVar(&o.Every, "every", time.Second, "between two pieces of a request")
	}
	fl.Lookup("conns").Usage = "connections of the victims"
	fl.Lookup("rate").Usage = "requests of the victims per second, measured from when each was due; 0 = one in flight on each connection"
	fl.Lookup("rate").DefValue = "500"
	f.Rate = 500
	fl.Lookup("duration").Usage = "how long to measure the victims undisturbed, and as long beside the attackers"
	return cmd
}

func attack(t *cli.Terminal, o load.AttackOptions, asJSON bool) error {
	if o.Rate == 0 {
		o.InFlight = 1
	}
	if err := o.Check(); err != nil {
		return err
	}
	ctx, cancel := t.Interruptible(context.Background())
	defer cancel()
	undisturbed, disturbed, assault, err := load.Attack(ctx, o, func(r *load.Result, a *load.Assault) {
		line := progressLine(o.Options, r)
		if a == nil {
			t.Note("undisturbed, %s", line)
			return
		}
		t.Note("%d attackers opened, %d closed, %d not let in; %s", a.Opened, a.Closed, a.Rejected, line)
	})
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted before anything was measured")
	}
	if err != nil {
		return explainDial(o.Options, err)
	}
	if err := withoutAnswer(ctx, o.Options, undisturbed); err != nil {
		return err
	}
	return report(t, measured.NewAttack(o, undisturbed, disturbed, assault, version.Get().Version), asJSON)
}
