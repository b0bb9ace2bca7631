package rpc

import (
	"strings"
	"testing"
)

// TestDispatcherTable spells the table of docs/dispatchers.md out, row by row and column by column.
func TestDispatcherTable(t *testing.T) {
	const (
		io        = PlaceLoop
		shared    = PlaceShared
		preferred = PlacePreferred
		connect   = PlaceConnection
		caller    = PlaceCaller
		future    = PlaceFuture
	)
	type row struct {
		event                                      Event
		all, direct, message, execution, connected Place
	}
	for _, r := range []row{
		{EventConnected, shared, io, io, io, connect},
		{EventDisconnected, shared, io, io, io, connect},
		{EventSent, io, io, io, io, io},
		{EventRequest, preferred, io, preferred, preferred, preferred},
		{EventSyncResponse, caller, caller, caller, caller, caller},
		{EventAsyncResponse, future, io, future, io, future},
		{EventLateResponse, shared, io, shared, io, shared},
		{EventOther, shared, io, shared, io, shared},
		{EventCaught, shared, io, io, io, shared},
		{EventHeartbeat, io, io, io, io, io},
		{EventAdmission, io, io, io, io, io},
	} {
		for d, want := range map[Dispatcher]Place{
			DispatchAll: r.all, DispatchDirect: r.direct, DispatchMessage: r.message,
			DispatchExecution: r.execution, DispatchConnection: r.connected,
		} {
			if got := d.Place(r.event, ServerSide); got != want {
				t.Errorf("server, %v, %v: %v, want %v", d, r.event, got, want)
			}
			if want == preferred {
				want = shared // a client has no services
			}
			if got := d.Place(r.event, ClientSide); got != want {
				t.Errorf("client, %v, %v: %v, want %v", d, r.event, got, want)
			}
		}
	}
	if got := dispatchers.Place(EventRequest, ServerSide); got != io {
		t.Errorf("no dispatcher: %v", got)
	}
	if got := DispatchAll.Place(events, ServerSide); got != io {
		t.Errorf("no event: %v", got)
	}
}

func TestParseDispatcher(t *testing.T) {
	for name, want := range map[string]Dispatcher{
		"all": DispatchAll, "direct": DispatchDirect, "message": DispatchMessage, "execution": DispatchExecution,
		"connection": DispatchConnection,
	} {
		got, err := ParseDispatcher(name)
		if err != nil || got != want {
			t.Errorf("ParseDispatcher(%q) = %v, %v", name, got, err)
		}
		if got.String() != name {
			t.Errorf("%q prints as %q", name, got)
		}
	}
	var zero Dispatcher
	if zero != DispatchAll {
		t.Errorf("the default is %v", zero)
	}
	for _, name := range []string{"", "All", "direct ", "messages", "io"} {
		_, err := ParseDispatcher(name)
		if err == nil {
			t.Errorf("ParseDispatcher(%q) succeeded", name)
			continue
		}
		for _, part := range []string{"rpc: ", `"` + name + `"`, "all, direct, message, execution, connection"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error %q does not contain %q", err, part)
			}
		}
	}
	if err := DispatchConnection.check("PortOptions.Dispatcher"); err != nil {
		t.Error(err)
	}
	if err := dispatchers.check("PortOptions.Dispatcher"); err == nil || !strings.Contains(err.Error(), "PortOptions.Dispatcher is 5") {
		t.Errorf("a value that is no dispatcher: %v", err)
	}
}

func TestDispatcherNames(t *testing.T) {
	for v, want := range map[interface{ String() string }]string{
		dispatchers: "dispatcher 5", events: "event 11", places: "place 6", Side(2): "side 2",
		ServerSide: "server", ClientSide: "client", EventAsyncResponse: "async response", EventAdmission: "admission",
		EventHeartbeat: "heartbeat", PlaceFuture: "future's pool", PlaceConnection: "connection executor",
	} {
		if got := v.String(); got != want {
			t.Errorf("%#v prints as %q, want %q", v, got, want)
		}
	}
}
