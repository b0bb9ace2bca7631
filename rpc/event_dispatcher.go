package rpc

import (
	"fmt"
	"strings"
)

// Dispatcher says which executor the events of a port or client run on, as in Dubbo. The zero value is the default. The
// method Place has the whole table; docs/dispatchers.md says when to choose which.
type Dispatcher uint8

const (
	// DispatchAll runs everything off the loop except what never leaves it. The default.
	DispatchAll Dispatcher = iota
	// DispatchDirect runs everything on the loop, for handlers that never block.
	DispatchDirect
	// DispatchMessage runs received messages off the loop, connects and disconnects on it.
	DispatchMessage
	// DispatchExecution runs requests off the loop, and nothing else.
	DispatchExecution
	// DispatchConnection is DispatchMessage, but connects and disconnects run on an ordered executor of their own, which
	// bounds how many connections may wait for it. Errors run on the shared pool.
	DispatchConnection
	dispatchers
)

var dispatcherNames = [dispatchers]string{"all", "direct", "message", "execution", "connection"}

// String returns the name that configurations use.
func (d Dispatcher) String() string { return nameOf(d, dispatcherNames[:], "dispatcher") }

// ParseDispatcher returns the dispatcher of that name. The error names the value and the choices. "" is none of them.
func ParseDispatcher(name string) (Dispatcher, error) {
	return parseName[Dispatcher](name, dispatcherNames[:], "dispatcher")
}

// check refuses a value that is no dispatcher; field is the option that holds it.
func (d Dispatcher) check(field string) error {
	if d < dispatchers {
		return nil
	}
	return fmt.Errorf("rpc: %s is %d: it must be one of %s", field, uint8(d), strings.Join(dispatcherNames[:], ", "))
}

// Side is the end of a connection that an endpoint stands for.
type Side uint8

const (
	// ServerSide is the end that accepted the connection.
	ServerSide Side = iota
	// ClientSide is the end that made it.
	ClientSide
)

// String returns "server" or "client".
func (s Side) String() string { return nameOf(s, []string{"server", "client"}, "side") }

// Event is a kind of event on a connection.
type Event uint8

const (
	EventConnected     Event = iota // the connection is open
	EventDisconnected               // the connection has ended
	EventSent                       // a message was given to the connection's outbound queue
	EventRequest                    // CALL, ONEWAY and ECHO
	EventSyncResponse               // the response to a call whose caller waits
	EventAsyncResponse              // the response to a call with a future
	EventLateResponse               // a response that nobody waits for any more
	EventOther                      // any other message that was received: the application's own operations
	EventCaught                     // an error of the connection
	EventHeartbeat                  // PING and its answer, CANCEL and GOAWAY
	EventAdmission                  // a connection is taken or refused
	events
)

var eventNames = [events]string{
	"connected", "disconnected", "sent", "request", "sync response", "async response", "late response",
	"other", "caught", "heartbeat", "admission",
}

// String returns the event's name.
func (e Event) String() string { return nameOf(e, eventNames[:], "event") }

// Place is an executor, as seen from an endpoint.
type Place uint8

const (
	// PlaceLoop is the connection's loop.
	PlaceLoop Place = iota
	// PlaceShared is the pool that the whole endpoint shares: the port's, or the client's callback pool.
	PlaceShared
	// PlacePreferred is the service's own pool if it has one, else the shared one.
	PlacePreferred
	// PlaceConnection is the ordered executor of connects and disconnects, one per port or client.
	PlaceConnection
	// PlaceCaller is the goroutine that waits for the response.
	PlaceCaller
	// PlaceFuture is the pool on which the call's Future ends: the callback pool, or the service's under DedicatedPool.
	PlaceFuture
	places
)

var placeNames = [places]string{"loop", "shared pool", "preferred pool", "connection executor", "caller", "future's pool"}

// String returns what the place is.
func (p Place) String() string { return nameOf(p, placeNames[:], "place") }

// placements is the table of a server, as in Dubbo. The columns are in the order of the constants.
var placements = [events][dispatchers]Place{
	EventConnected:     {PlaceShared, PlaceLoop, PlaceLoop, PlaceLoop, PlaceConnection},
	EventDisconnected:  {PlaceShared, PlaceLoop, PlaceLoop, PlaceLoop, PlaceConnection},
	EventSent:          {PlaceLoop, PlaceLoop, PlaceLoop, PlaceLoop, PlaceLoop},
	EventRequest:       {PlacePreferred, PlaceLoop, PlacePreferred, PlacePreferred, PlacePreferred},
	EventSyncResponse:  {PlaceCaller, PlaceCaller, PlaceCaller, PlaceCaller, PlaceCaller},
	EventAsyncResponse: {PlaceFuture, PlaceLoop, PlaceFuture, PlaceLoop, PlaceFuture},
	EventLateResponse:  {PlaceShared, PlaceLoop, PlaceShared, PlaceLoop, PlaceShared},
	EventOther:         {PlaceShared, PlaceLoop, PlaceShared, PlaceLoop, PlaceShared},
	EventCaught:        {PlaceShared, PlaceLoop, PlaceLoop, PlaceLoop, PlaceShared},
	EventHeartbeat:     {PlaceLoop, PlaceLoop, PlaceLoop, PlaceLoop, PlaceLoop},
	EventAdmission:     {PlaceLoop, PlaceLoop, PlaceLoop, PlaceLoop, PlaceLoop},
}

// Place returns where an event of an endpoint with this dispatcher runs. The sides differ in requests only, because a
// client has no services and so no pool to prefer. A value that is no dispatcher or no event runs on the loop. Any
// goroutine.
func (d Dispatcher) Place(e Event, s Side) Place {
	if d >= dispatchers || e >= events {
		return PlaceLoop
	}
	p := placements[e][d]
	if p == PlacePreferred && s == ClientSide {
		return PlaceShared
	}
	return p
}
