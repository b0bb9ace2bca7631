//go:build unix

package overload

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the processor time that the process has used.
func processTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// descriptors compares how many descriptors are open with limit, 0 for that of the process.
func descriptors(limit int) (float64, error) {
	if limit == 0 {
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
			return 0, fmt.Errorf("getrlimit: %w", err)
		}
		limit = int(min(uint64(r.Cur), math.MaxInt32))
	}
	open, err := openDescriptors()
	if errors.Is(err, unix.EMFILE) {
		return 1, nil
	}
	return float64(open) / float64(max(limit, 1)), err
}

// openDescriptors asks Linux, which tells since version 6.2. Elsewhere it goes by the lowest free number: with gaps below it more are
// open than it says.
func openDescriptors() (int, error) {
	if st, err := os.Stat("/proc/self/fd"); err == nil && st.Size() > 0 {
		return int(st.Size()), nil
	}
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("opening a descriptor: %w", err)
	}
	_ = unix.Close(fd) // it was never used
	return fd, nil
}
