package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

func newUser(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Manage the accounts of agents from the command line",
		Long: "Manage the accounts of agents from the command line; the pages at /admin do the same. The Desk may be running: a new account can log in\n" +
			"at once. Whoever is connected already stays so until the connection ends, unless it is done at /admin.",
		Example: "  eddy desk user add lin --name Lin --role supervisor\n  eddy desk user list\n  eddy desk user password lin",
		RunE:    cli.NeedsCommand("add, list, set, password, reset-second-factor, enable and disable"),
	}
	cmd.AddCommand(newUserAdd(t, desk), newUserList(t, desk), newUserSet(t, desk), newUserPassword(t, desk), newUserFactor(t, desk),
		newUserSwitch(t, desk, "enable", "Let an account log in again", false), newUserSwitch(t, desk, "disable", "Keep an account from logging in and end its logins", true))
	return cmd
}

// userFlags are what an account has besides its login and password.
type userFlags struct {
	name, role, locale, email string
	skills, languages         string
	capacity                  int
	chats                     bool
}

const defaultCapacity = 5

func (f *userFlags) register(cmd *cobra.Command) {
	roles := make([]string, 0, len(perm.Roles()))
	for _, r := range perm.Roles() {
		roles = append(roles, string(r))
	}
	cmd.Flags().StringVar(&f.name, "name", "", "name that customers see; empty = the login")
	cmd.Flags().StringVar(&f.role, "role", string(perm.Agent), "what the account may do: "+strings.Join(roles, ", "))
	cmd.Flags().StringVar(&f.locale, "locale", "", "language of the pages, en or zh-CN; empty = that of the browser")
	cmd.Flags().StringVar(&f.email, "email", "", "e-mail address, for mail about a forgotten password; empty = none")
	cmd.Flags().IntVar(&f.capacity, "capacity", defaultCapacity, "conversations at once; 0 = none")
	cmd.Flags().StringVar(&f.skills, "skills", "", fmt.Sprintf("what rules for chats may ask for, such as \"returns, contracts\": at most %d of %d characters; empty = none", store.MaxAgentSkills, store.MaxSkill))
	cmd.Flags().StringVar(&f.languages, "languages", "", fmt.Sprintf("languages that the agent speaks, such as en,zh: at most %d; empty = any", store.MaxLanguages))
	cmd.Flags().BoolVar(&f.chats, "chats", true, "whether waiting customers are given to the account; administrators: false unless named")
}

// apply sets the fields of a that the command line names, or all of them.
func (f *userFlags) apply(cmd *cobra.Command, a *store.AgentAccount, everything bool) {
	set := func(flag string) bool { return everything || cmd.Flags().Changed(flag) }
	if set("name") {
		a.Name = f.name
	}
	if a.Name == "" {
		a.Name = a.Login
	}
	if set("role") {
		a.Role = perm.Role(f.role)
	}
	if set("locale") {
		a.Locale = f.locale
	}
	if set("email") {
		a.Email = f.email
	}
	if set("skills") {
		a.Skills = store.Skills(f.skills)
	}
	if set("languages") {
		a.Languages = store.Languages(f.languages)
	}
	if set("capacity") {
		a.Capacity = f.capacity
	}
	switch {
	case cmd.Flags().Changed("chats"):
		a.NoChats = !f.chats
	case everything:
		a.NoChats = !a.Role.TakesChats()
	}
}

// chats says how many conversations an account is given, and which.
func chats(a *store.AgentAccount) string {
	text := fmt.Sprintf("capacity %d", a.Capacity)
	if a.NoChats {
		text += ", takes no chats"
	}
	if a.Skills != "" {
		text += ", skills: " + listed(a.Skills)
	}
	if a.Languages != "" {
		text += ", languages: " + listed(a.Languages)
	}
	return text
}

// listed shows a list of an account, "-" if there is nothing in it.
func listed(list string) string {
	return cmp.Or(strings.ReplaceAll(list, ",", ", "), "-")
}

// oneLogin checks the arguments of a command on one account.
func oneLogin(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%q needs exactly one login; see \"%s --help\"", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

func newUserAdd(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	var f userFlags
	var fromInput bool
	cmd := &cobra.Command{
		Use:   "add LOGIN",
		Short: "Add an account; its password is printed once",
		Args:  oneLogin,
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := choosePassword(cmd.InOrStdin(), fromInput)
			if err != nil {
				return err
			}
			return onAccounts(cmd.Context(), t, desk, true, func(ctx context.Context, db store.Store) error {
				hash, err := desk.logins.cost.hash(ctx, password)
				if err != nil {
					return err
				}
				a := store.AgentAccount{Login: args[0], Password: hash}
				f.apply(cmd, &a, true)
				if _, err := db.CreateAgent(ctx, a); err != nil {
					return explainAccount(args[0], err)
				}
				t.Say("eddy: added %s, role %s, %s", a.Login, a.Role, chats(&a))
				sayPassword(t, password, fromInput)
				return nil
			})
		},
	}
	f.register(cmd)
	registerPassword(cmd, desk, &fromInput)
	return cmd
}

func newUserList(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the accounts",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onAccounts(cmd.Context(), t, desk, false, func(ctx context.Context, db store.Store) error {
				all, err := db.Cold().Agents(ctx)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(t.Out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "LOGIN\tNAME\tROLE\tCAPACITY\tCHATS\tSTATE\tSKILLS\tLANGUAGES")
				for _, a := range all {
					state := "enabled"
					if a.Disabled {
						state = "disabled"
					}
					chats := "yes"
					if a.NoChats {
						chats = "no"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", a.Login, a.Name, a.Role, a.Capacity, chats, state, listed(a.Skills), listed(a.Languages))
				}
				return w.Flush()
			})
		},
	}
}

func newUserSet(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	var f userFlags
	cmd := &cobra.Command{
		Use:     "set LOGIN",
		Short:   "Change name, role, capacity, skills or languages of an account, or whether it takes chats",
		Example: "  eddy desk user set lin --role supervisor --capacity 8\n  eddy desk user set lin --skills \"returns, contracts\" --languages en,zh\n  eddy desk user set agent --chats=false",
		Args:    oneLogin,
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeAccount(cmd.Context(), t, desk, args[0], func(a *store.AgentAccount) { f.apply(cmd, a, false) })
		},
	}
	f.register(cmd)
	return cmd
}

func newUserSwitch(t *cli.Terminal, desk *deskFlags, name, short string, disabled bool) *cobra.Command {
	return &cobra.Command{
		Use:   name + " LOGIN",
		Short: short,
		Args:  oneLogin,
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeAccount(cmd.Context(), t, desk, args[0], func(a *store.AgentAccount) { a.Disabled = disabled })
		},
	}
}

func newUserPassword(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	var fromInput bool
	cmd := &cobra.Command{
		Use:   "password LOGIN",
		Short: "Give an account a new password, print it once and end its logins",
		Args:  oneLogin,
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := choosePassword(cmd.InOrStdin(), fromInput)
			if err != nil {
				return err
			}
			return onAccounts(cmd.Context(), t, desk, false, func(ctx context.Context, db store.Store) error {
				a, err := db.Cold().AgentByLogin(ctx, args[0])
				if err != nil {
					return explainAccount(args[0], err)
				}
				hash, err := desk.logins.cost.hash(ctx, password)
				if err != nil {
					return err
				}
				if err := db.ResetPassword(ctx, a.ID, hash); err != nil {
					return explainAccount(args[0], err)
				}
				t.Say("eddy: %s has a new password", a.Login)
				sayPassword(t, password, fromInput)
				return nil
			})
		},
	}
	registerPassword(cmd, desk, &fromInput)
	return cmd
}

func newUserFactor(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "reset-second-factor LOGIN",
		Short: "Remove the second factor of an account whose app and recovery codes are lost, and end its logins",
		Args:  oneLogin,
		RunE: func(cmd *cobra.Command, args []string) error {
			return onAccounts(cmd.Context(), t, desk, false, func(ctx context.Context, db store.Store) error {
				a, err := db.Cold().AgentByLogin(ctx, args[0])
				if err != nil {
					return explainAccount(args[0], err)
				}
				if !a.Factor {
					return fmt.Errorf("%q has no second factor; its password is changed with \"eddy desk user password\"", a.Login)
				}
				if err := store.Record(ctx, db, store.Audit{Action: store.AuditFactor, Target: "agent " + a.ID, Detail: "reset on the command line"}); err != nil {
					return err
				}
				if err := db.RemoveFactor(ctx, a.ID, store.Token{}); err != nil {
					return explainAccount(args[0], err)
				}
				t.Say("eddy: %s has no second factor any more", a.Login)
				return nil
			})
		},
	}
}

// changeAccount reads an account, changes it and prints the result.
func changeAccount(ctx context.Context, t *cli.Terminal, desk *deskFlags, login string, change func(*store.AgentAccount)) error {
	return onAccounts(ctx, t, desk, false, func(ctx context.Context, db store.Store) error {
		a, err := db.Cold().AgentByLogin(ctx, login)
		if err != nil {
			return explainAccount(login, err)
		}
		change(&a)
		if err := db.UpdateAgent(ctx, a); err != nil {
			return explainAccount(login, err)
		}
		state := ""
		if a.Disabled {
			state = ", disabled"
		}
		t.Say("eddy: %s is %q, role %s, %s%s", a.Login, a.Name, a.Role, chats(&a), state)
		return nil
	})
}

// onAccounts opens the data directory and calls f to work on the accounts. A running Desk may have the directory; the
// database is then not brought up to date.
func onAccounts(ctx context.Context, t *cli.Terminal, desk *deskFlags, create bool, f func(context.Context, store.Store) error) (err error) {
	for from := time.Now(); ; {
		info, err := desk.inspect(ctx)
		if _, none := errors.AsType[*noDesk](err); err != nil && (!none || !create) {
			return err
		}
		dir, err := datadir.LockBriefly(desk.data)
		if err != nil && !errors.Is(err, datadir.ErrInUse) {
			return err
		}
		if err == nil || info.Schema == info.Newest && info.ID != "" {
			return withData(ctx, t, desk, dir, f)
		}
		if time.Since(from) > startWait {
			return fmt.Errorf("the database in %s has schema version %d, this program knows %d: use the program that runs, or stop it and migrate", desk.place(), info.Schema, info.Newest)
		}
		select {
		case <-time.After(startWait / 100):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// startWait is for how long a Desk that has the directory may be just starting.
const startWait = 5 * time.Second

// explainAccount says what is wrong with the account that the command line names.
func explainAccount(login string, err error) error {
	var invalid store.Invalid
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("there is no account %q; see \"eddy desk user list\"", login)
	case errors.Is(err, store.ErrExists):
		return fmt.Errorf("there is an account %q already: choose another login, or change that one with \"eddy desk user set\"", login)
	case errors.Is(err, store.ErrLastAdmin):
		return fmt.Errorf("%q is the last administrator who can log in: make another one first with \"eddy desk user set LOGIN --role admin\"", login)
	case errors.As(err, &invalid):
		return fmt.Errorf("the account %q cannot be like this: %s", login, strings.TrimPrefix(invalid.Error(), "store: "))
	}
	return err
}

// sayPassword prints the password, unless the user knows it.
func sayPassword(t *cli.Terminal, password string, known bool) {
	if !known {
		t.Say("  password  %s", password)
		t.Say("  (the password is shown only this once)")
	}
}
