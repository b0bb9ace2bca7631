// Package executor runs work outside event loops: bounded worker pools, and serial
// executors over them that keep order without owning a goroutine.
//
// Nothing here blocks the goroutine that submits. Every queue is bounded and a full
// one answers ErrRejected. A panic in a task is recovered, counted and reported; it
// costs neither a worker nor the tasks behind it.
package executor
