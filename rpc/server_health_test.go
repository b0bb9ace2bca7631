package rpc

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestHealth: what the built-in service says of the server and of services, and what changes that.
func TestHealth(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), greeter(t, "g/test:1"))
	c := dialRaw(t, s.Addr("port0"))
	id := uint64(0)
	check := func(request string, status byte, want string) {
		t.Helper()
		id++
		c.json(id, "/eddy.Health:", "Check", request)
		if got := c.expect(id, status); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
	check(`{}`, ok, `{"status":"SERVING"}`)
	check(`{"service":"g/test:1"}`, ok, `{"status":"SERVING"}`)
	check(`{"service":"g/test:2"}`, notFound, `no service "g/test:2"`)
	check(`{"service":"a/b/c"}`, badRequestStatus, `rpc: key "a/b/c:": the interface "b/c" has a character that keys do not have; want group/interface:version, not "a/b/c"`)
	if err := s.SetServing(Key{"g", "test", "1"}, false); err != nil {
		t.Fatal(err)
	}
	check(`{"service":"g/test:1"}`, ok, `{"status":"NOT_SERVING"}`)
	check(`{}`, ok, `{"status":"SERVING"}`)
	if err := s.SetServing(Key{"g", "test", "1"}, true); err != nil {
		t.Fatal(err)
	}
	check(`{"service":"g/test:1"}`, ok, `{"status":"SERVING"}`)
	if err := s.SetServing(Key{Interface: "none"}, false); err == nil {
		t.Error("a service that is not there has a health")
	}
}

// TestReflection: the list has services, versions, ports, timeouts, methods and codecs.
func TestReflection(t *testing.T) {
	s := newServer(t, ServerOptions{Ports: []PortOptions{{Name: "a"}, {Name: "b"}}})
	svc := newService(t, "g/test:1",
		Unary("J", func(context.Context, *greeting) (*greeting, error) { return nil, nil }),
		Unary("P", func(context.Context, *wrapperspb.StringValue) (*wrapperspb.StringValue, error) { return nil, nil }),
		Unary("Mixed", func(context.Context, *wrapperspb.StringValue) (*greeting, error) { return nil, nil }),
		OneWay("O", func(context.Context, *[]byte) error { return nil }),
		Raw("R", func(context.Context, []byte) ([]byte, error) { return nil, nil }))
	if err := s.Register(svc, Timeout(1500*time.Millisecond), OnPorts("b")); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	c := dialRaw(t, s.Addr("a"))
	c.json(1, "/eddy.Reflection:", "List", `{}`)
	var got ListResponse
	if err := json.Unmarshal([]byte(c.expect(1, ok)), &got); err != nil {
		t.Fatal(err)
	}
	both := []string{"a", "b"}
	want := []ServiceInfo{
		{Service: "/eddy.Health:", Interface: "eddy.Health", Ports: both, Methods: []MethodInfo{{"Check", false, []string{"json"}, "rpc.HealthRequest", "rpc.HealthResponse"}}},
		{Service: "/eddy.Reflection:", Interface: "eddy.Reflection", Ports: both, Methods: []MethodInfo{{"List", false, []string{"json"}, "rpc.ListRequest", "rpc.ListResponse"}}},
		{Service: "g/test:1", Group: "g", Interface: "test", Version: "1", TimeoutMS: 1500, Ports: []string{"b"}, Methods: []MethodInfo{
			{"J", false, []string{"json"}, "rpc.greeting", "rpc.greeting"},
			{"P", false, []string{"json", "protobuf"}, "google.protobuf.StringValue", "google.protobuf.StringValue"},
			{"Mixed", false, []string{"json"}, "google.protobuf.StringValue", "rpc.greeting"},
			{"O", true, []string{"raw", "json"}, "[]uint8", ""},
			{"R", false, []string{"raw", "json", "protobuf"}, "", ""},
		}},
	}
	if !reflect.DeepEqual(got.Services, want) {
		t.Errorf("%+v\nwant %+v", got.Services, want)
	}
	if !reflect.DeepEqual(s.Services(), want) {
		t.Errorf("Services %+v", s.Services())
	}
	if svc.Key() != (Key{"g", "test", "1"}) || len(svc.Methods()) != 5 || !svc.Methods()[3].IsOneWay() || svc.Methods()[0].Name() != "J" {
		t.Error(svc.Key(), svc.Methods())
	}
}
