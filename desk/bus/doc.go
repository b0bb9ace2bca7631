// Package bus carries messages between the servers of one Desk over NATS: at most once, and in no order.
//
// What is lost is made up for by the database. Nobody waits for the bus: a server without one hears of the others
// through the database, a little later.
package bus
