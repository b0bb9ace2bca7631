// Package root is the command eddy itself: it puts the commands together, runs one command line and explains what is wrong with it.
package root

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-eddy/eddy/cmd/eddy/internal/bench"
	"github.com/go-eddy/eddy/cmd/eddy/internal/call"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/desk"
	"github.com/go-eddy/eddy/cmd/eddy/internal/doctor"
	"github.com/go-eddy/eddy/cmd/eddy/internal/health"
	"github.com/go-eddy/eddy/cmd/eddy/internal/serve"
	"github.com/go-eddy/eddy/cmd/eddy/internal/top"
	"github.com/go-eddy/eddy/internal/version"
	"github.com/go-eddy/eddy/rpc/config"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/nacos"
)

// Main runs the command line of this process and exits. The engines are those of the module's own.
func Main() { MainWith(engines()) }

// engines are what files of "eddy serve rpc" may name: the registries without a module of their own.
func engines() config.Engines {
	return config.Engines{Registries: []discovery.Engine{nacos.Engine()}}
}

// MainWith is Main with the engines that a program links.
func MainWith(engines config.Engines) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(run(engines, os.Args[1:], os.Stdout, os.Stderr, signals))
}

// Run executes one command line and returns the exit code. Every error is one line on stderr.
func Run(args []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	return run(engines(), args, stdout, stderr, signals)
}

func run(engines config.Engines, args []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	root := newRoot(&cli.Terminal{Out: stdout, Err: stderr, Signals: signals}, engines)
	root.SetArgs(args)
	if err := root.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintf(stderr, "eddy: %s\n", cli.OneLine(err))
		if e, ok := errors.AsType[*cli.ExitError](err); ok {
			return e.Code
		}
		return 1
	}
	return 0
}

// newRoot builds the whole command tree.
func newRoot(t *cli.Terminal, engines config.Engines) *cobra.Command {
	root := &cobra.Command{
		Use:   "eddy",
		Short: "Desk chat server, example servers and load generator of the Eddy network engine",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(t.Out)
	root.SetErr(t.Err)
	root.Version = version.Get().String()
	root.SetVersionTemplate("eddy {{.Version}}\n")
	root.Flags().Bool("version", false, "print the version, as \"eddy version\" does")
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(desk.Command(t), serve.Command(t, engines), bench.Command(t), call.Command(t), top.Command(t), doctor.Command(t), health.Command(), newVersion(t))
	addCompletion(root)
	tidy(root)
	return root
}

// addCompletion adds the library's command for the completion of shells, with the manners of our own.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil {
		cmd.Args, cmd.RunE = nil, cli.NeedsCommand("bash, fish, powershell and zsh")
	}
}

// newHelp builds the help command. Unlike the library's own, it fails on a command that does not exist.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			target, rest, err := root.Find(args)
			if err == nil {
				err = refuseArgs(target, rest)
			}
			if err != nil {
				return err
			}
			return target.Help()
		},
	}
}

// tidy gives every command the same manners: one-line errors with a remedy, no usage dump, no stray arguments.
func tidy(cmd *cobra.Command) {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.DisableSuggestions = true // we make our own, in one line
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misuse(cmd, explainFlag(cmd, err)) })
	if cmd.Args == nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return misuse(cmd, refuseArgs(cmd, args)) }
	}
	for _, sub := range cmd.Commands() {
		tidy(sub)
	}
}

// misuse gives the error of a command that was called wrongly the exit code of that command.
func misuse(cmd *cobra.Command, err error) error {
	if _, own := cmd.Annotations[cli.UsageCodeKey]; !own || err == nil || errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return &cli.ExitError{Err: err, Code: cli.UsageCode}
}

// refuseArgs reports a command or argument that does not exist.
func refuseArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return fmt.Errorf("unexpected argument %q: %q takes flags only; see \"%s --help\"", args[0], cmd.CommandPath(), cmd.CommandPath())
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s; see \"%s --help\"", args[0], cmd.CommandPath(), cli.Meant(args[0], names), cmd.CommandPath())
}

// explainFlag rewrites the flag package's errors: what is wrong, and what would be right.
func explainFlag(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	help := fmt.Sprintf("see \"%s --help\"", cmd.CommandPath())
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := e.GetSpecifiedName()
		if e.GetSpecifiedShortnames() != "" {
			return fmt.Errorf("unknown flag -%s for %q; %s", name, cmd.CommandPath(), help)
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return fmt.Errorf("unknown flag --%s for %q%s; %s", name, cmd.CommandPath(), cli.Meant("--"+name, names), help)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("--%s needs a value: %s", e.GetSpecifiedName(), e.GetFlag().Usage)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s %q is not a valid %s: %s", e.GetFlag().Name, e.GetValue(), cli.Kind(e.GetFlag()), e.GetFlag().Usage)
	}
	return fmt.Errorf("%w; %s", err, help)
}
