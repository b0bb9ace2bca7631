package responder

import "fmt"

// Ordering says in which order the requests of one connection are run and answered, see Responder.
type Ordering uint8

const (
	// ByCompletion runs requests concurrently and answers each when it is done. Use it for protocols whose responses carry
	// the request's id.
	ByCompletion Ordering = iota
	// ByRequest runs requests concurrently and answers them in the order of arrival. A response that is ready too early
	// waits; meanwhile its bytes count as queued on the connection.
	ByRequest
	// Serial runs one request of a connection at a time, in the order of arrival, and answers in that order.
	Serial
	// NoPipelining takes a request only after the response to the previous one. A request that comes earlier breaks the
	// protocol and ends the connection.
	NoPipelining
	orderings
)

var orderingNames = [orderings]string{"completion", "ordered", "serial", "no-pipelining"}

// String returns the name that ParseOrdering takes.
func (o Ordering) String() string {
	if o >= orderings {
		return fmt.Sprintf("ordering_%d", uint8(o))
	}
	return orderingNames[o]
}

// ParseOrdering returns the ordering of that name: completion, ordered, serial or no-pipelining.
func ParseOrdering(name string) (Ordering, error) {
	for o, n := range orderingNames {
		if n == name {
			return Ordering(o), nil
		}
	}
	return 0, fmt.Errorf("responder: ordering %q: want completion, ordered, serial or no-pipelining", name)
}

// inOrder reports whether responses leave in the order of their requests.
func (o Ordering) inOrder() bool { return o == ByRequest || o == Serial }
