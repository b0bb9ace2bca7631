package sys

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Windows reports completion, not readiness. Package netsys has the Sockets of this system, and the pollers that take
// their descriptors.

// ReusePortBalances says whether sockets that listen on one address with ListenOptions.ReusePort share its connections
// on this system, which has no such option.
const ReusePortBalances = false

// Dup fails here with errors.ErrUnsupported, because reading a duplicate moves the offset of the original file.
func Dup(_ syscall.Conn, name string) (*os.File, error) {
	return nil, fmt.Errorf("sys: dup of %s: %w", name, errors.ErrUnsupported)
}
