// Package discovery says how clients learn where a service runs, and how servers tell. A Resolver finds the instances of a
// service; a Registry has resolvers and takes registrations. Registries are modules of their own below this package, so that a program links
// only the one it uses.
//
// No answer of a resolver may make calls fail that could be made. Clients keep what they know when a resolver fails, is slow, or answers with nothing or
// with what does not parse.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxInstances bounds the instances of a service.
	MaxInstances = 4096
	// MaxWeight bounds Instance.Weight.
	MaxWeight = 10_000
	// DefaultWeight is the weight of an instance that has none.
	DefaultWeight = 100
)

// Service names what is looked for, or offered.
type Service struct {
	Interface      string // such as org.example.Greeter
	Group, Version string // may be empty; compared as written
	Protocol       string // what its instances speak: frame, grpc, tri, dubbo, http; empty = any
}

// String returns group/interface:version.
func (s Service) String() string {
	name := s.Interface
	if s.Group != "" {
		name = s.Group + "/" + name
	}
	if s.Version != "" {
		name += ":" + s.Version
	}
	return name
}

// Instance is one server of a service.
type Instance struct {
	Addr       string            // host:port, where the host is a name or an address
	Weight     int               // share of the calls, compared with other instances; 0 = DefaultWeight
	Zone       string            // where it runs, for balancers that prefer what is near; may be empty
	Since      time.Time         // when it began to serve, for warm-up; zero = unknown
	Attributes map[string]string // whatever else its registry tells
}

// Check returns what is wrong with an instance, or nil. The error names the field and its value.
func (i Instance) Check() error {
	host, port, err := net.SplitHostPort(i.Addr)
	if err != nil {
		return fmt.Errorf("discovery: address %q: %w", i.Addr, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("discovery: address %q: the port must be a number from 1 to 65535", i.Addr)
	}
	if strings.ContainsAny(host, " \t\r\n/") {
		return fmt.Errorf("discovery: address %q: the host has characters of no host", i.Addr)
	}
	if i.Weight < 0 || i.Weight > MaxWeight {
		return fmt.Errorf("discovery: weight of %s is %d: it must be from 0 to %d", i.Addr, i.Weight, MaxWeight)
	}
	return nil
}

// Equal reports whether two instances are the same in every field.
func (i Instance) Equal(j Instance) bool {
	return i.Addr == j.Addr && i.Weight == j.Weight && i.Zone == j.Zone && i.Since.Equal(j.Since) && maps.Equal(i.Attributes, j.Attributes)
}

// Check returns what is wrong with the answer of a resolver, or nil: too many instances, or one that is wrong.
func Check(instances []Instance) error {
	if len(instances) > MaxInstances {
		return fmt.Errorf("discovery: %d instances, limit %d", len(instances), MaxInstances)
	}
	for _, i := range instances {
		if err := i.Check(); err != nil {
			return err
		}
	}
	return nil
}

// ErrUnregistered is the error of Registration.Err after Withdraw.
var ErrUnregistered = errors.New("discovery: the registration was withdrawn")

// ErrClosed is the error of a Registry behind its Close, and of the watches that its Close has ended.
var ErrClosed = errors.New("discovery: the registry is closed")

// Resolver finds the instances of one service.
type Resolver interface {
	// Watch calls tell with all instances: once when they are known, and after each change. It blocks until ctx ends, and returns earlier only
	// with an error, after which its caller calls it again with growing pauses. Calls of tell come one at a time, from any goroutine, and do not block.
	// The receiver owns the slice. An empty slice says that the registry knows no instance; an error says that nothing is known.
	Watch(ctx context.Context, tell func([]Instance)) error
}

// Registry has the instances of services. Any goroutine may call its methods.
type Registry interface {
	// Resolver returns a resolver for s. It makes no connection before its first Watch.
	Resolver(s Service) Resolver

	// Register offers i as an instance of s until Withdraw or Close, across losses of the registry's memory and of the connection to it. It does not wait
	// for the registry, which may be down; see Registration.Err. The error tells what is wrong with s or i.
	Register(s Service, i Instance) (Registration, error)

	// Close ends all registrations and watches, and waits for its goroutines.
	Close() error
}

// Registration is one instance of one service that a server offers.
type Registration interface {
	// Withdraw takes the instance out of the registry and waits until that is done. When ctx ends first, the withdrawal goes on, and the error is that of
	// ctx. A further call waits likewise. The instance can be registered again at once.
	Withdraw(ctx context.Context) error

	// Err returns why the registry does not have the instance at this moment, nil when it has.
	Err() error
}
