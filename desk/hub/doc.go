// Package hub is the heart of Desk. It knows who is connected, runs commands on one lane per conversation, and tells
// everybody concerned what has been committed, in order.
//
// # What runs where
//
// Session.Receive runs on the connection's loop: it decodes, checks shape, size and rate, and never blocks. A change goes
// to the lane of its conversation, a serial executor that hands it to the store and holds no worker until the commit.
// Reads of customers and of staff run on two separate pools. Fan-out runs on the goroutine on which the store tells
// outcomes, in commit order.
//
// # Locks
//
// Hub.mu guards two parts, sessions and queue, and is held in their methods. It is taken before Session.mu. Nothing is
// sent to a connection while Hub.mu is held.
package hub
