// Package accept lets connections in. An Acceptor owns a listening socket on a loop, holds each new socket against the limits
// of a Gate and refuses what is beyond them. It knows no connection: admitted sockets go to Host.Take.
//
// Each part stands in a file of its own: acceptor.go takes sockets and admits them, place.go keeps them until their first
// bytes have come, pause.go says when nothing is accepted, refusal.go ends refused sockets and last.go a listener. gate.go has
// the limits, limits.go what they count with, tally.go what the acceptors of a server count together, and cause.go why a
// connection is refused and how.
package accept
