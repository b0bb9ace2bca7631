// Package backend chooses between this platform's ways to the operating system: the pollers of package poll with the
// sockets of package sys, or package netsys, which has sockets of its own.
package backend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-eddy/eddy/internal/poll"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/sys/netsys"
)

// Available lists the backends of this platform by name, best first.
func Available() []string { return append(poll.Available(), netsys.Name) }

// Default returns the name of the platform's best backend.
func Default() string { return Available()[0] }

// Check refuses a name that this platform does not have and lists those it has. The empty name is the default.
func Check(name string) error {
	if names := Available(); name != "" && !slices.Contains(names, name) {
		return fmt.Errorf("no readiness backend %q here; there is %s", name, strings.Join(names, ", "))
	}
	return nil
}

// NewPoller opens a poller of the backend.
func NewPoller(name string, mode poll.Mode) (sys.Poller, error) {
	if err := Check(name); err != nil {
		return nil, err
	}
	if Virtual(name) {
		return netsys.Process().NewPoller(), nil
	}
	return poll.New(name, mode)
}

// NewSockets returns the sockets whose descriptors the pollers of the backend take.
func NewSockets(name string) sys.Sockets {
	if Virtual(name) {
		return netsys.Process().NewSockets()
	}
	return newSockets()
}

// Virtual reports whether the descriptors of the backend are its own and not the system's, so that no other backend can
// use them.
func Virtual(name string) bool {
	return name == netsys.Name || name == "" && Default() == netsys.Name
}
