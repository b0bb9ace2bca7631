// Package buf holds the byte memory of a loop: pooled segments for queues and
// leftovers, and messages that borrow memory until they are detached.
//
// A Pool and its segments belong to one goroutine; nothing here locks.
// Built with the tag eddydebug the package overwrites released memory and checks
// on reuse that nobody wrote to it in between.
package buf
