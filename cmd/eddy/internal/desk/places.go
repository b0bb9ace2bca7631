package desk

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/desk/geo"
)

// places is the file that says where addresses are.
type places struct {
	path string
	file *geo.File

	quit chan struct{}
	done sync.WaitGroup
}

func (p *places) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.path, "place-file", "", "database in the MaxMind format, such as GeoLite2-City.mmdb, that says in which country and city customers are; SIGHUP reads it again; empty = agents are not shown that")
}

// open reads the file, if there is one, and reads it again at each SIGHUP. Call end when the server has stopped.
func (p *places) open(t *cli.Terminal) (end func(), err error) {
	if p.path == "" {
		return func() {}, nil
	}
	if p.file, err = geo.Open(p.path); err != nil {
		return nil, fmt.Errorf("--place-file: %w", err)
	}
	t.Note("places of customers by %s", p.file)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // before anybody is told that the server serves: the signal would end it
	p.quit = make(chan struct{})
	p.done.Go(func() { p.reload(t, hup) })
	return func() {
		close(p.quit)
		p.done.Wait()
	}, nil
}

func (p *places) reload(t *cli.Terminal, hup chan os.Signal) {
	defer signal.Stop(hup)
	for {
		select {
		case <-p.quit:
			return
		case <-hup:
		}
		switch changed, err := p.file.Reload(); {
		case err != nil:
			t.Note("the places in use stay: %s", cli.OneLine(err))
		case changed:
			t.Note("places of customers by %s, which is new", p.file)
		default:
			t.Note("places of customers by %s, as before", p.file)
		}
	}
}
