//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package sys

// allocationFree is false where addresses go through unix.Sockaddr.
const allocationFree = false
