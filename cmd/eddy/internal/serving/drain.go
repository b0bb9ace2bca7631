package serving

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/sdnotify"
)

// UntilSignal serves until the first signal and then calls stop. The context of stop ends after cli.DrainTimeout or at
// the second signal. UntilSignal prints the outcome in one line. A drain that had to be forced is no error. alive
// reports an error if the server does not answer; nil means that this cannot be known.
func UntilSignal(t *cli.Terminal, alive func(context.Context) error, stop func(context.Context) (outcome string, err error)) error {
	stopping := underManager(t, alive)
	sig := <-t.Signals
	stopping()
	t.Note("%s: draining, at most %s; once more to stop at once", signalName(sig), cli.DrainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), cli.DrainTimeout)
	defer cancel()
	ctx, calm := t.Interruptible(ctx)
	defer calm()
	from := time.Now()
	outcome, err := stop(ctx)
	t.Note("stopped after %s: %s", time.Since(from).Round(time.Millisecond), outcome)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func signalName(s os.Signal) string {
	if s == os.Interrupt {
		return "interrupt"
	}
	return s.String()
}

// underManager tells the service manager that the server is ready, and gives signs of life from then on. stopping ends
// the signs of life and tells the manager that the server ends.
func underManager(t *cli.Terminal, alive func(context.Context) error) (stopping func()) {
	m := sdnotify.FromEnv(os.Getenv, os.Getpid())
	complain := func(err error) {
		if err != nil {
			t.Note("telling the service manager: %s", cli.OneLine(err))
		}
	}
	complain(m.Tell(sdnotify.Ready, "serving"))
	if alive == nil { // nothing to check beyond that the program runs
		alive = func(context.Context) error { return nil }
	}
	stop := m.Watch(alive, complain)
	return func() {
		stop()
		complain(m.Tell(sdnotify.Stopping, "draining"))
	}
}
