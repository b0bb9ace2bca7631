//go:build !unix

package desk

import "syscall"

// Windows cannot pause a process; what sends these fails there.
const (
	pause  = syscall.Signal(-1)
	resume = syscall.Signal(-2)
)
