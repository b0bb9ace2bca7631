// Package admin serves the operator of a running program: probes, the numbers of servers, pools and lanes, and the table of
// connections. Profiles, the log level and a page that shows everything live are there too.
//
// Make a [Server] with [New], add the parts to look at with Watch and its siblings, and call Listen. Without a token the
// server listens on the loopback interface only. docs/admin.md names the routes and the rules.
//
// The server runs on the engine itself, with its own loop and pool, so it answers when the watched servers are overloaded.
// Reading their numbers takes no lock and no work on their loops. Only the table of connections, a close and the readiness
// probe ask the loops, in small pieces.
package admin
