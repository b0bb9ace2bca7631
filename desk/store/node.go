package store

import (
	"context"
	"time"
)

// Presence says at which servers somebody is connected, and what an agent has chosen, both as they are now.
type Presence struct {
	Kind  ActorKind // Agent or Customer
	ID    string
	Nodes []string // with a connection, in order

	// Of an agent.
	Status  Status
	NoChats bool
	Missed  int
	GoneAt  int64
}

// Nodes are the servers that work on the same data, and who is connected to them. Where one server is alone nothing of
// this is stored. Methods block until committed and honour ctx. Any goroutine may call them.
type Nodes interface {
	// Node returns the name of this run of this server, "" where it is alone.
	Node() string
	// Beat says that this server lives for life, has taken the feed over up to a place, and what it says about itself. The
	// result is true if the others do not know it, or have buried it: who is connected to it then has to be stored again. Alone
	// it is false.
	Beat(ctx context.Context, life time.Duration, told int64, about About) (anew bool, err error)
	// SetHere stores which customers have a connection to this server, and when the last one ended of others, at most BuryRows at once.
	SetHere(ctx context.Context, all []Here) error
	// EndNode says that this server ends now.
	EndNode(ctx context.Context) error
	// Bury lets those be gone who were connected to another server that does not live any more, at most BuryRows of them. more means that there may be
	// others.
	Bury(ctx context.Context) (more bool, err error)
	// AdoptTurns gives this server unanswered turns of bots whose server does not live any more, at most BuryRows at once, and
	// returns their ids.
	AdoptTurns(ctx context.Context) ([]string, error)
}

// About is what a server says about itself. Whoever operates it reads that; servers decide nothing by it.
type About struct {
	Name    string        `json:"name"`    // of the machine, with the address on which the server listens
	Version string        `json:"version"` // of the program
	Since   int64         `json:"since"`   // of the start, Unix milliseconds
	Bus     string        `json:"bus"`     // up or down, "" = it has none
	Lag     time.Duration `json:"lag"`     // the longest time that a part of the feed took to get here, since the beat before
	Behind  int64         `json:"behind"`  // rows of the outbox that it had heard of and not taken over
}

// Server is a server as the database knows it.
type Server struct {
	Node string
	About
	Until     int64    // it counts as alive, Unix milliseconds
	Agents    int      // connected to it
	Customers int      // of those with an open chat
	Leases    []string // that it holds, in order
}

// Here says that a customer has a connection to a server, or since when not.
type Here struct {
	Contact string
	GoneAt  int64 // Unix milliseconds, 0 = there is one
}

// BuryRows is how many connections one Bury or SetHere is about, and turns one AdoptTurns.
const BuryRows = 256

// NodeReader reads who is connected. Methods block and honour ctx.
type NodeReader interface {
	// Presences returns everybody who is connected to one of several servers. Only Kind, ID and Nodes are set.
	Presences(ctx context.Context) ([]Presence, error)
	// Servers returns the servers that live now, in the order of their names. Where one is alone there are none.
	Servers(ctx context.Context, now time.Time) ([]Server, error)
}
