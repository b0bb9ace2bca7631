//go:build linux || darwin || freebsd

package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func (machine) FileLimit() (soft, hard uint64, err error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, 0, fmt.Errorf("getrlimit: %w", err)
	}
	return uint64(r.Cur), uint64(r.Max), nil
}
