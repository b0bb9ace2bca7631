package store

import (
	"context"
	"time"
)

// Lease is a name that one server at a time holds, and with it the work that only one of several may do.
type Lease struct {
	Name  string
	Token int64 // grows each time that the name is taken; 0 = there is one server alone, and nothing to check
}

type leaseKey struct{}

// Bind returns a context for the work of a lease. Writes of a store with it fail with ErrLeased once the lease is another
// server's, and then change nothing.
func (l Lease) Bind(ctx context.Context) context.Context {
	if l.Token == 0 {
		return ctx
	}
	return context.WithValue(ctx, leaseKey{}, l)
}

// LeaseOf returns the lease that a context is for, zero for none.
func LeaseOf(ctx context.Context) Lease {
	l, _ := ctx.Value(leaseKey{}).(Lease)
	return l
}

// Leased is a command that belongs to the work of a lease. The error is ErrLeased once the lease is another server's.
type Leased struct {
	Command
	Lease Lease
}

// Command returns a command of the work of a lease.
func (l Lease) Command(cmd Command) Command {
	if l.Token == 0 {
		return cmd
	}
	return Leased{cmd, l}
}

// Leases say which of several servers does what only one may do. Where there is one server alone, it holds every name and
// nothing is stored. Methods block until committed and honour ctx. Any goroutine may call them.
type Leases interface {
	// Claim takes a name that nobody holds, or makes the hold of this server last longer. The hold ends life after the commit,
	// by the clock of the data. The error is ErrLeased while another server holds the name.
	Claim(ctx context.Context, name string, life time.Duration) (Lease, error)
	// Release gives a name back. A lease that is lost already is no error.
	Release(ctx context.Context, l Lease) error
}
