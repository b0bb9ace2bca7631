//go:build !linux && !darwin && !freebsd && !windows

package allowance

import "errors"

// Total returns errors.ErrUnsupported.
func Total() (uint64, error) { return 0, errors.ErrUnsupported }
