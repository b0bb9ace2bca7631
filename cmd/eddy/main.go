// Command eddy is the product's one binary: the Desk chat server, small example servers on the engine, and a load generator.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, signals))
}

// run executes one command line and returns the exit code. Every error is one line on stderr.
func run(args []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	root := newRoot(&terminal{out: stdout, err: stderr, signals: signals})
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintf(stderr, "eddy: %s\n", oneLine(err))
		if e, ok := errors.AsType[*exitError](err); ok {
			return e.code
		}
		return 1
	}
	return 0
}

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

// Unwrap returns the error itself.
func (e *exitError) Unwrap() error { return e.error }

// oneLine joins the lines of an error's text, so that scripts and logs see one line per failure.
func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "eddy: "), "\n", "; ")), " ")
}

// terminal is what a command may use of the outside world: its output and the signals that end it.
type terminal struct {
	out, err io.Writer
	signals  <-chan os.Signal
	alive    func(context.Context) error // reports an error if the server does not answer; nil = cannot be known
}

// say prints one line for the person who started the command.
func (t *terminal) say(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }

// note prints one line about the progress of the command, on stderr.
func (t *terminal) note(format string, args ...any) {
	fmt.Fprintf(t.err, "eddy: "+format+"\n", args...)
}
