package sys

// allocationFree says that this platform's sockets keep the promise of
// Sockets not to allocate for addresses.
const allocationFree = true
