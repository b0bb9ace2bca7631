//go:build linux || darwin || freebsd || dragonfly

package files

import "golang.org/x/sys/unix"

// freeBytes returns what this user may still write to the file system of a path.
func freeBytes(path string) (uint64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, false
	}
	return uint64(max(s.Bavail, 0)) * uint64(s.Bsize), true //nolint:unconvert // the types differ between systems
}
