package sys

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SetAffinity lets the calling thread run on these CPUs only, numbered as the
// system does. The caller must have locked its goroutine to the thread and must
// let the thread end with it, because the setting cannot be taken back. An
// error names the CPU that is not available, and changes nothing. Systems
// without affinity return errors.ErrUnsupported.
func SetAffinity(cpus []int) error {
	var old, want, got unix.CPUSet
	if len(cpus) == 0 {
		return errors.New("sys: affinity to no CPU")
	}
	const limit = int(unsafe.Sizeof(want)) * 8
	for _, cpu := range cpus {
		if cpu < 0 || cpu >= limit {
			return fmt.Errorf("sys: affinity to CPU %d: CPUs are numbered from 0 to %d", cpu, limit-1)
		}
		want.Set(cpu)
	}
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return os.NewSyscallError("sched_getaffinity", err)
	}
	if err := unix.SchedSetaffinity(0, &want); err != nil {
		if err == unix.EINVAL {
			return fmt.Errorf("sys: affinity to CPU %v: none is available", cpus)
		}
		return fmt.Errorf("sys: affinity to CPU %v: %w", cpus, os.NewSyscallError("sched_setaffinity", err))
	}
	// The kernel silently drops CPUs that do not exist or are not allowed.
	if err := unix.SchedGetaffinity(0, &got); err != nil {
		return os.NewSyscallError("sched_getaffinity", err)
	}
	i := slices.IndexFunc(cpus, func(cpu int) bool { return !got.IsSet(cpu) })
	if i < 0 {
		return nil
	}
	if err := unix.SchedSetaffinity(0, &old); err != nil {
		return os.NewSyscallError("sched_setaffinity", err)
	}
	return fmt.Errorf("sys: affinity to CPU %d: it is not available", cpus[i])
}
