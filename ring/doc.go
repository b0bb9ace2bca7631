// Package ring passes messages between goroutines through bounded rings of preallocated slots: one producer to one
// consumer (SPSC), many to one (MPSC, Mux), one to many that share the work (Demux, Shared), one to many that all see
// everything (Broadcast). Passing a message allocates nothing and takes no lock.
//
// A slot is a carrier that stays in the ring. A producer asks for the next free one, fills it in place, and publishes what
// it has filled, one message or a batch at a time; nothing is seen before that. A consumer fetches what is available, uses
// the slots in place, and releases them, again one or a batch at a time; only then are they free. It must copy what it
// keeps. A full ring gives the producer nil, an empty one the consumer: nothing here waits. Waiter and Bell are for those
// who must.
//
// Capacities are powers of two. Unless a type says otherwise, the producer's methods belong to one goroutine at a time and
// the consumer's to one. The model is that of reference section 3 (CoralQueue).
package ring
