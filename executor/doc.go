// Package executor runs work outside event loops: on bounded worker pools, on serial executors over those pools, and on
// lanes with workers of their own.
//
// Submitting never blocks, except in a Pool whose Policy is CallerRuns or Block, and in Lanes.SubmitBlocking. Every
// queue is bounded; a full one answers ErrRejected or does what the policy says. A panic in a task is recovered, counted
// and reported. It costs neither the worker nor the tasks behind it.
//
// # Work in any order
//
// NewFixed, NewCached, NewLimited and NewEager return a Pool. Pool.Submit gives it work, and Pool.Shutdown finishes that
// work.
//
// # Work in order
//
// A Strand runs its items one at a time, in order, on the workers of a pool. Keyed does the same for the tasks of each
// key. Neither owns a goroutine.
//
// # Heavy beside light work
//
// Lanes are queues with workers of their own, so that heavy work cannot delay light work.
package executor
