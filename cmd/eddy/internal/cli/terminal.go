// Package cli holds what the commands of eddy share: the terminal, words for errors, sizes, progress, settings and addresses.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Terminal is what a command may use of the outside world: its output and the signals that end it.
type Terminal struct {
	Out, Err io.Writer
	Signals  <-chan os.Signal
}

// Say prints one line for the person who started the command.
func (t *Terminal) Say(format string, args ...any) { fmt.Fprintf(t.Out, format+"\n", args...) }

// Note prints one line about the progress of the command, on stderr.
func (t *Terminal) Note(format string, args ...any) {
	fmt.Fprintf(t.Err, "eddy: "+format+"\n", args...)
}

// Interruptible returns a context that ends at the next signal, too.
func (t *Terminal) Interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-t.Signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// WhileRunning runs f with a context that a signal ends.
func (t *Terminal) WhileRunning(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := t.Interruptible(ctx)
	defer cancel()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted; nothing was changed")
	}
	return err
}

// DrainTimeout is how long a server that was told to stop waits for requests in flight.
const DrainTimeout = 10 * time.Second

// UsageCode is the exit code of "eddy doctor" for a wrong command line. 1 says that something is wrong with the machine.
const UsageCode = 2

// UsageCodeKey is the annotation of a command that exits with UsageCode after a wrong command line.
const UsageCodeKey = "usage-code"

// ExitError is an error with an exit code of its own.
type ExitError struct {
	Err  error
	Code int
}

// Error returns the text of the error itself.
func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *ExitError) Unwrap() error { return e.Err }

// OneLine joins the lines of an error's text, so that scripts and logs see one line per failure.
func OneLine(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "eddy: "), "\n", "; ")), " ")
}
