package sys

// keepAliveTimes is empty, because OpenBSD has one time for the whole system,
// the sysctl net.inet.tcp.keepidle.
func keepAliveTimes() []int { return nil }
