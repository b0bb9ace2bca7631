//go:build darwin || freebsd

package allowance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Total returns the machine's memory in bytes.
func Total() (uint64, error) {
	name := "hw.physmem"
	if runtime.GOOS == "darwin" {
		name = "hw.memsize"
	}
	raw, err := unix.SysctlRaw(name)
	switch {
	case err != nil:
		return 0, fmt.Errorf("sysctl %s: %w", name, err)
	case len(raw) == 4:
		return uint64(binary.NativeEndian.Uint32(raw)), nil
	case len(raw) == 8:
		return binary.NativeEndian.Uint64(raw), nil
	}
	return 0, errors.ErrUnsupported
}
