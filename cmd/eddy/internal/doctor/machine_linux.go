package doctor

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

func (m machine) Sysctl(name string) (string, error) {
	text, err := m.ReadFile(path.Join("/proc/sys", strings.ReplaceAll(name, ".", "/")))
	return strings.TrimSpace(string(text)), err
}

func (machine) OpenFiles() (int, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	return max(0, len(entries)-1), err // one is the directory's own descriptor
}

// timeError is the state that adjtimex(2) reports for a clock that nobody sets.
const timeError = 5

func (machine) Synchronised() (bool, error) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return state != timeError, err
}

func (machine) Volume(dir string) (Volume, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Volume{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	kind := map[uint32]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", 0x2fc12fc1: "zfs", unix.F2FS_SUPER_MAGIC: "f2fs",
		unix.NFS_SUPER_MAGIC: "nfs", unix.CIFS_SUPER_MAGIC: "cifs", unix.SMB2_SUPER_MAGIC: "smb2", unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "fuse",
		unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	}[uint32(s.Type)] // the numbers have 32 bits; the field's size and sign differ between processors
	return Volume{Type: kind, Free: s.Bavail * uint64(s.Bsize)}, nil
}
