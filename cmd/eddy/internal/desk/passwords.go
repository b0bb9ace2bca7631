package desk

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/desk/auth"
)

// passwordCost is the flag with what the check of a password costs.
type passwordCost struct{ memory cli.ByteSize }

// leastPassword and mostPassword bound the memory of a check. With less, guessing is too cheap.
const (
	leastPassword = 7 << 20
	mostPassword  = 1 << 30
)

func (c *passwordCost) register(cmd *cobra.Command) {
	c.memory = 64 << 20
	cmd.Flags().Var(&c.memory, "password-memory", "memory that the check of a password takes (argon2id), from 7MiB: less is for small machines, and makes stolen hashes cheaper to guess")
}

func (c *passwordCost) check() error {
	if c.memory < leastPassword || c.memory > mostPassword {
		return fmt.Errorf("--password-memory is %s: give 7MiB to 1GiB", &c.memory)
	}
	return nil
}

func (c *passwordCost) params() auth.Params {
	return auth.Params{MemoryKiB: uint32(c.memory >> 10), Passes: 3, Lanes: 1}
}

// minPassword and maxPassword bound a password that the user chooses, in bytes.
const (
	minPassword = 10
	maxPassword = 256
)

func registerPassword(cmd *cobra.Command, desk *deskFlags, fromInput *bool) {
	desk.logins.cost.register(cmd)
	cmd.Flags().BoolVar(fromInput, "password-stdin", false, "read the password from the first line of the standard input instead of making one up")
}

// choosePassword makes a password up or reads it from in. A password is never an argument, which other users of the
// machine can see.
func choosePassword(in io.Reader, fromInput bool) (string, error) {
	if !fromInput {
		return auth.NewPassword(), nil
	}
	data, err := io.ReadAll(io.LimitReader(in, maxPassword+2))
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	line = strings.TrimSuffix(line, "\r")
	if len(line) < minPassword || len(line) > maxPassword {
		return "", fmt.Errorf("the password has %d bytes: use %d to %d", len(line), minPassword, maxPassword)
	}
	return line, nil
}

// hash returns the hash of a password.
func (c *passwordCost) hash(ctx context.Context, password string) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	h, err := auth.NewHasher(c.params(), 0, 0)
	if err != nil {
		return "", err
	}
	return h.Hash(ctx, password)
}
