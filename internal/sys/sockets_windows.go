package sys

// Windows tells completion, not readiness. The Sockets of this system, and the pollers that take their descriptors, are
// those of package netsys.

// ReusePortBalances says whether sockets that listen on one address with ListenOptions.ReusePort share its connections
// on this system, which has no such option.
const ReusePortBalances = false
