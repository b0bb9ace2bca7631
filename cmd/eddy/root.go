package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newRoot builds the whole command tree.
func newRoot(t *terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "eddy",
		Short: "Desk chat server, example servers and load generator of the Eddy network engine",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(newDesk(t), newServe(t), newBench(t), newCall(t), newTop(t), newDoctor(t), newHealth(t), newVersion(t))
	tidy(root)
	return root
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
	if _, own := cmd.Annotations[usageCodeKey]; !own || err == nil || errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return &exitError{err, usageCode}
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
	return fmt.Errorf("unknown command %q for %q%s; see \"%s --help\"", args[0], cmd.CommandPath(), meant(args[0], names), cmd.CommandPath())
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
		return fmt.Errorf("unknown flag --%s for %q%s; %s", name, cmd.CommandPath(), meant("--"+name, names), help)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("--%s needs a value: %s", e.GetSpecifiedName(), e.GetFlag().Usage)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s %q is not a valid %s: %s", e.GetFlag().Name, e.GetValue(), kind(e.GetFlag()), e.GetFlag().Usage)
	}
	return fmt.Errorf("%w; %s", err, help)
}

// kind names a flag's type the way a person would.
func kind(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "number"
	case "duration":
		return "duration such as 10s or 1m30s"
	case "size":
		return "size such as 512KiB, 20MiB or 10GiB"
	}
	return f.Value.Type()
}

// meant suggests the name that was probably meant, "" if none is near.
func meant(typed string, names []string) string {
	slices.Sort(names)
	best, least := "", 3
	for _, name := range names {
		if d := distance(typed, name); d < least || strings.HasPrefix(name, typed) && best == "" {
			best, least = name, min(d, least)
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// distance is the Levenshtein distance of two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(diagonal+cost, row[j]+1, row[j+1]+1)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// needsCommand is the body of a command that only groups others.
func needsCommand(what string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%q needs one of %s; see \"%s --help\"", cmd.CommandPath(), what, cmd.CommandPath())
	}
}
