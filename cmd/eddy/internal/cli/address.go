package cli

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// ServeAddr is where the example servers listen, and where "eddy bench" looks for them.
const ServeAddr = "127.0.0.1:7000"

// DeskAddr is where Desk listens, and where "eddy health" looks for it.
const DeskAddr = "127.0.0.1:8080"

// ValidPort reports whether port is a number from 0 to 65535.
func ValidPort(port string) bool {
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

// Reachable returns an address a browser on this machine can open.
func Reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return fmt.Sprintf("localhost:%s", port)
	}
	return addr
}

// ExplainListen turns the reason why an address cannot be served into what to do about it. The address comes from flag.
func ExplainListen(flag, addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use by another program: stop that one, or choose another address with %s (port 0 takes any free port)", addr, flag)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("no permission to listen on %s: choose a port above 1023 with %s", addr, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not an address of this machine: choose one with %s, such as 127.0.0.1 or 0.0.0.0", addr, flag)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("the host of %s is unknown: choose an address of this machine with %s", addr, flag)
	}
	said := "listen tcp " + addr
	cause := err
	for cause != nil && strings.Contains(cause.Error(), said) { // each layer says so
		cause = errors.Unwrap(cause)
	}
	if cause == nil || !strings.Contains(err.Error(), said) { // it is not about the address
		return err
	}
	return fmt.Errorf("cannot listen on %s: %w", addr, cause)
}
