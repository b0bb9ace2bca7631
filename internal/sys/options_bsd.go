//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import "runtime"

// ReusePortBalances says whether sockets that listen on one address with
// ListenOptions.ReusePort share its connections on this system. Where they do
// not, one of them gets all.
const ReusePortBalances = runtime.GOOS == "freebsd" || runtime.GOOS == "dragonfly"

// choosePortLate does nothing here: a bind without a port reserves one.
func choosePortLate(int) {}

// isAbstract returns false: here every unix address is a file.
func isAbstract(string) bool { return false }
