// Package ring passes messages between goroutines through bounded rings of preallocated slots. Passing a message
// allocates nothing and takes no lock. The model is that of CoralQueue.
//
// # Choosing a ring
//
//   - SPSC: one producer to one consumer
//   - MPSC, Mux: many producers to one consumer
//   - Demux, Shared: one producer to many consumers that share the work
//   - Broadcast: one producer to many consumers that all see everything
//
// # Using slots
//
// A slot stays in the ring. A producer asks for the next free slot with Next, fills it in place and calls Publish, for
// one message or a batch. Nothing is seen before that. A consumer calls Fetch, uses the slots in place and calls
// Release, again for one or a batch. Slots are free only after their release, so a consumer must copy what it keeps.
//
// Capacities are powers of two. Unless a type says otherwise, the producer's methods belong to one goroutine at a time
// and the consumer's to one.
//
// # Waiting
//
// Nothing in a ring waits: a full one gives the producer nil, an empty one the consumer. Waiter, Bell and Blocker are
// for goroutines that must wait. Spill is a queue that goes on on disk when its memory is full.
package ring
