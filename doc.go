// Package eddy is a multi-reactor network engine for servers that must stay responsive when the network, the clients or
// the business code misbehave.
//
// A [Server] runs one boss loop that accepts and a fixed set of worker loops. Each connection is owned by exactly one
// worker loop from registration to close; everything that belongs to the connection is read and written by that loop
// alone. Other goroutines hold a [*Conn] (or its [ConnID]) and submit work, which the loop carries out in order.
//
// A connection's bytes pass a [Pipeline] of handlers. A handler runs on the loop, or, when it was added with [On], on a
// bounded executor where it may block: one strand per connection keeps the order, and what crosses is detached from the
// loop's memory first.
//
// Every queue has a bound and an answer when it is full, and every connection ends with exactly one [CloseReason].
package eddy
