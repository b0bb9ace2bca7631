//go:build !linux

package sys

import (
	"errors"
	"fmt"
)

// SetAffinity lets the calling thread run on certain CPUs only. This system
// cannot; the error is errors.ErrUnsupported.
func SetAffinity(cpus []int) error {
	return fmt.Errorf("sys: affinity to CPU %v: %w", cpus, errors.ErrUnsupported)
}
