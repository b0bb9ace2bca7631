// Package admin serves the operator of a running program. It answers the probes for health and readiness. It has the numbers
// of servers, pools and lanes, the table of connections, profiles, the log level, and a page that shows them live.
//
// Make a [Server] with [New], add the parts to look at with Watch and its siblings, and call Listen. Without a token the
// server listens on the loopback interface only. docs/admin.md names the routes and the rules.
//
// The server runs on the engine itself, with its own loop and pool, so it answers when the watched servers are overloaded. It
// reads their numbers without a lock and without work on their loops. Only the table of connections, a close and the
// readiness probe ask the loops, in small pieces.
package admin
