package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// memoryFiles is where Linux has a file system in memory, and memoryRoom how many bytes of it must be free.
const (
	memoryFiles = "/dev/shm"
	memoryRoom  = 4 << 30
)

// memoryDir returns a new directory in memory, "" where there is none with room.
func memoryDir() (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(memoryFiles, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC || fs.Bavail*uint64(fs.Bsize) < memoryRoom {
		return "", nil //nolint:nilerr // then tests write to the disk
	}
	dir, err := os.MkdirTemp(memoryFiles, "gate-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o777|os.ModeSticky) // as other directories for temporary files: some tests run as another user
}
