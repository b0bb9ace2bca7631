//go:build darwin || freebsd

package doctor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Sysctl prints numbers in decimal. A value of four or eight bytes is a number, anything else a text.
func (machine) Sysctl(name string) (string, error) {
	if strings.HasSuffix(name, "osrelease") {
		return unix.Sysctl(name)
	}
	raw, err := unix.SysctlRaw(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return "", os.ErrNotExist
	case err != nil:
		return "", fmt.Errorf("sysctl %s: %w", name, err)
	case len(raw) == 4:
		return strconv.FormatUint(uint64(binary.NativeEndian.Uint32(raw)), 10), nil
	case len(raw) == 8:
		return strconv.FormatUint(binary.NativeEndian.Uint64(raw), 10), nil
	}
	return strings.TrimRight(string(raw), "\x00"), nil
}

func (machine) OpenFiles() (int, error) {
	entries, err := os.ReadDir("/dev/fd")
	return max(0, len(entries)-1), err // one is the directory's own descriptor
}

func (machine) Synchronised() (bool, error) { return false, errors.ErrUnsupported }

func (machine) Volume(dir string) (Volume, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Volume{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return Volume{Type: unix.ByteSliceToString(s.Fstypename[:]), Free: uint64(max(0, s.Bavail)) * uint64(s.Bsize)}, nil
}
