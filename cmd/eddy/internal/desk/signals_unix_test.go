//go:build unix

package desk

import "syscall"

// The signals that pause a process and let it go on.
const (
	pause  = syscall.SIGSTOP
	resume = syscall.SIGCONT
)
