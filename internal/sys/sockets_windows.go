package sys

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Windows tells completion, not readiness. The Sockets of this system, and the pollers that take their descriptors, are
// those of package netsys.

// ReusePortBalances says whether sockets that listen on one address with ListenOptions.ReusePort share its connections
// on this system, which has no such option.
const ReusePortBalances = false

// Dup fails here: reading a duplicate moves the offset of the file that it was made of. The error is errors.ErrUnsupported.
func Dup(_ syscall.Conn, name string) (*os.File, error) {
	return nil, fmt.Errorf("sys: dup of %s: %w", name, errors.ErrUnsupported)
}
