//go:build unix

package eddy_test

import "syscall"

// descriptorLimit is how many descriptors this process may have.
func descriptorLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}

// makeDescriptorsScarce leaves this process 64.
func makeDescriptorsScarce() error {
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64})
}
