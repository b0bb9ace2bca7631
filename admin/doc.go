// Package admin is what an operator looks at while a program runs: health and readiness for probes, the numbers of the
// servers, pools and lanes, the table of connections, profiles, the log level, and a page that shows them live.
//
// It is an HTTP server on the engine itself, with a loop and a pool of its own: it answers when the servers it watches
// are overloaded, and reads their numbers without a lock and without work on their loops. Only the table of connections,
// a close and the readiness probe ask the loops, in small pieces.
//
// It listens on the loopback interface unless it has a token; docs/admin.md names the routes and the rules.
package admin
