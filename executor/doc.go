// Package executor runs work outside event loops: bounded worker pools, and serial
// executors over them that keep order without owning a goroutine.
//
// Nothing here blocks the goroutine that submits, unless the pool's policy says so. Every
// queue is bounded and a full one answers ErrRejected or what the policy says. A panic in a task is recovered, counted and reported; it
// costs neither a worker nor the tasks behind it.
package executor
