package dubbo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	hessian2 "github.com/apache/dubbo-go-hessian2"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
)

// Person and Employee are classes of the generic tests: with names by tags, a class within a class, and one that refers to itself.
type (
	Person struct {
		ID     int64  `hessian:"id"`
		Name   string `hessian:"fullName"`
		Secret string `hessian:"-"`
		note   string
	}
	Employee struct {
		Person
		Boss   *Employee
		Team   []*Person
		Office map[string]*Person
		Hired  time.Time
		Days   []int32
		Any    any
	}
)

func init() {
	RegisterClass("org.example.Person", Person{})
	RegisterClass("org.example.Employee", Employee{})
}

// staff is the service of the generic tests.
type staff struct{}

func (staff) Describe(_ context.Context, e *Employee, more []Person) (string, error) {
	return fmt.Sprintf("%d %s %s %v %s %v %s %d", e.ID, e.Name, e.Boss.Name, e.Office["x"].Name, e.Hired.UTC().Format(time.DateOnly), e.Days, e.Team[1].Name, len(more)), nil
}

func (staff) Loop(context.Context) (*Employee, error) {
	e := &Employee{Person: Person{ID: 1, Name: "Ann", Secret: "s", note: "n"}, Team: []*Person{{ID: 2}, nil}, Office: map[string]*Person{"x": {ID: 3}}, Days: []int32{4}, Hired: time.UnixMilli(1700000000000)}
	e.Boss, e.Any = e, []any{e, Person{ID: 5}}
	return e, nil
}

func (staff) Lists(context.Context) ([][]Person, error) { return [][]Person{{{ID: 1}}, nil}, nil }

func (staff) Fail(context.Context) error { return errors.New("no such day") }

// serveStaff starts a place with the service, and returns its clients by each protocol.
func serveStaff(t *testing.T) (rpc.Key, map[string]rpc.Caller) {
	t.Helper()
	k := rpc.Key{Interface: "org.example.Staff", Group: "g", Version: "1"}
	svc, err := NewService(k, staff{}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p := startWith(t, Limits{}, nil, svc)
	return k, map[string]rpc.Caller{"Triple": p.grpc, "frames": p.frames, "dubbo": p.dubbo}
}

// TestGeneric: a call with maps in the place of objects reaches the method, and its result is of maps, by each protocol.
func TestGeneric(t *testing.T) {
	k, clients := serveStaff(t)
	for name, cl := range clients {
		t.Run(name, func(t *testing.T) { testGeneric(t, cl, k) })
	}
}

func testGeneric(t *testing.T, cl rpc.Caller, k rpc.Key) {
	ctx := testkit.Context(t)
	boss := map[string]any{"class": "org.example.Employee", "name": "nobody's", "fullName": "Bea", "unknown": int32(1)}
	e := map[string]any{
		"class": "org.example.Employee", "id": int32(7), "fullName": "Ann", "boss": boss, "team": []any{nil, map[string]string{"fullName": "Cid"}},
		"office": map[string]any{"x": &Person{Name: "Dan"}}, "hired": time.UnixMilli(1700000000000), "Days": []any{int64(1), int32(2)},
	}
	for _, operation := range []string{"describe", "Describe"} {
		got, err := InvokeGeneric[string](ctx, cl, k, operation, []string{"org.example.Employee", "java.util.List"}, []any{e, []any{boss}})
		if want := "7 Ann Bea Dan 2023-11-14 [1 2] Cid 1"; err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", operation, got, err, want)
		}
	}
	loop, err := InvokeGeneric[map[any]any](ctx, cl, k, "loop", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	self, _ := loop["boss"].(map[any]any)
	if self["fullName"] != "Ann" || reflect.ValueOf(self["boss"]).Pointer() != reflect.ValueOf(self).Pointer() {
		t.Errorf("a class that refers to itself: %v", self)
	}
	anything, _ := loop["any"].([]any)
	if len(anything) != 2 || !reflect.DeepEqual(anything[1], map[any]any{"class": "org.example.Person", "id": int64(5), "fullName": ""}) {
		t.Errorf("objects in a list: %d", len(anything))
	}
	delete(loop, "boss")
	delete(loop, "any")
	want := map[any]any{
		"class": "org.example.Employee", "id": int64(1), "fullName": "Ann", "team": []any{map[any]any{"class": "org.example.Person", "id": int64(2), "fullName": ""}, nil},
		"office": map[any]any{"x": map[any]any{"class": "org.example.Person", "id": int64(3), "fullName": ""}}, "days": []int32{4}, "hired": time.UnixMilli(1700000000000),
	}
	if !reflect.DeepEqual(loop, want) {
		t.Errorf("%v, want %v", loop, want)
	}
	lists, err := InvokeGeneric[[][]map[string]any](ctx, cl, k, "lists", nil, nil)
	if err != nil || len(lists) != 2 || lists[0][0]["id"] != int64(1) || lists[1] != nil {
		t.Errorf("%v, %v", lists, err)
	}
	raw, err := Invoke[*Employee](ctx, cl, k, operationGeneric, []any{"loop", []string{}, []hessian2.Object{}}, rpc.CallMetadata(rpc.Pair{Key: genericKey, Value: "raw.return"}))
	if err != nil || raw.Boss != raw {
		t.Errorf("raw: %v", err)
	}
	if got, err := Invoke[any](ctx, cl, k, "$invokeAsync", []any{"lists", nil, nil}); err != nil || len(got.([]any)) != 2 { //nolint:forcetypeassert // a panic fails the test
		t.Errorf("without a kind, types and arguments: %v, %v", got, err)
	}
}

// TestGenericErrors: a generic call that does not fit says what is wrong, as the call itself would.
func TestGenericErrors(t *testing.T) {
	ctx := testkit.Context(t)
	k, clients := serveStaff(t)
	for name, c := range map[string]struct {
		operation, kind string
		args            []any
		code            rpc.Code
		text            string
	}{
		"no such operation": {"close", "true", nil, rpc.CodeUnimplemented, `service g/org.example.Staff:1 has no method "close"`},
		"itself":            {"$invoke", "true", nil, rpc.CodeUnimplemented, "no method"},
		"another kind":      {"loop", "protobuf-json", nil, rpc.CodeUnimplemented, `generic calls of the kind "protobuf-json"`},
		"too few arguments": {"describe", "true", []any{nil}, rpc.CodeInvalidArgument, "Describe: 1 arguments, want 2"},
		"another type":      {"describe", "true", []any{1, nil}, rpc.CodeInvalidArgument, "Describe: argument 1: a int64 is no dubbo.Employee"},
		"a wrong field":     {"describe", "true", []any{map[string]any{"boss": map[string]any{"id": "x"}}, nil}, rpc.CodeInvalidArgument, "argument 1: field boss: field id: a string is no int64"},
		"a map for a date":  {"describe", "true", []any{map[string]any{"hired": map[string]any{"wall": 1}}, nil}, rpc.CodeInvalidArgument, "field hired: a map[interface {}]interface {} is no time.Time"},
		"a method's error":  {"fail", "True", nil, rpc.CodeUnknown, "no such day"},
	} {
		_, err := Invoke[any](ctx, clients["Triple"], k, operationGeneric, []any{c.operation, nil, c.args}, rpc.CallMetadata(rpc.Pair{Key: genericKey, Value: c.kind}))
		if rpc.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v (%v), want %v %q", name, err, rpc.CodeOf(err), c.code, c.text)
		}
	}
	self := map[any]any{"id": int32(1)}
	self["boss"] = self
	if _, err := InvokeGeneric[any](ctx, clients["Triple"], k, "describe", nil, []any{self, nil}); rpc.CodeOf(err) != rpc.CodeInvalidArgument || !strings.Contains(err.Error(), "more than Limits.Depth levels") {
		t.Errorf("a map within itself: %.300v", err)
	}
	ordinary := map[string]string{"frames": "rpc: g/org.example.Staff:1 $invoke: APP_ERROR: no such day", "dubbo": "rpc: g/org.example.Staff:1 $invoke: APP_ERROR: java.lang.RuntimeException: no such day"}
	for name, want := range ordinary {
		if _, err := InvokeGeneric[any](ctx, clients[name], k, "fail", nil, nil); !errors.Is(err, rpc.ErrApp) || err.Error() != want {
			t.Errorf("a method's error by %s: %v, want %s", name, err, want)
		}
	}
}

// TestEcho: each service returns the argument of $echo, and a service that is not there does not.
func TestEcho(t *testing.T) {
	ctx := testkit.Context(t)
	k, clients := serveStaff(t)
	for name, cl := range clients {
		for _, v := range []any{"OK", nil, int64(5), []any{"a", nil}} {
			if got, err := Invoke[any](ctx, cl, k, operationEcho, []any{v}); err != nil || !reflect.DeepEqual(got, v) {
				t.Errorf("%s: %v, %v, want %v", name, got, err, v)
			}
		}
		if _, err := Invoke[any](ctx, cl, rpc.Key{Interface: "org.example.Nobody"}, operationEcho, []any{"OK"}); err == nil {
			t.Errorf("%s: a service that is not there answers", name)
		}
	}
}

// TestGenericPackets: what GenericService and EchoService of Java send and are told, byte for byte.
func TestGenericPackets(t *testing.T) {
	p := start(t, Limits{}, nil)
	c := dial(t, p.addr)
	head := func(method, types string) string {
		return short("2.0.2") + short(key.Interface) + short(key.Version) + short(method) + types
	}
	const three = "\x30\x38Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;"
	attached := "H\x07generic\x04trueZ"
	for _, s := range []struct{ name, body, want string }{
		{"an echo", head("$echo", "\x12Ljava/lang/Object;") + short("OK") + "HZ", `0x2 20 0x9 "\x91\x02OKN"`},
		{"a generic call", head("$invoke", three) + short("any") + "\x71\x07[string\x10java.lang.Object" + "\x71\x07[object" + short("hello") + attached, `0x2 20 0x9 "\x91\x05helloN"`},
		{"a generic call without arguments", head("$invoke", three) + short("ping") + "\x70\x07[string" + "\x70\x07[object" + attached, `0x2 20 0x9 "\x92N"`},
		{"a generic call that fails", head("$invoke", three) + short("nothing") + "NN" + attached, `0x2 20 0x9 "\x90C0.com.alibaba.dubbo.rpc.service.GenericException`},
		{"another call that fails", head("getUser", "\x01J") + "\xed" + attached, `0x2 20 0x9 "\x90C\x1ajava.lang.RuntimeException`},
		{"a generic call of nulls", head("$invoke", three) + short("ping") + "NN" + attached, `0x2 20 0x9 "\x92N"`},
		{"a generic call with a map", head("$invoke", three) + short("rename") + "\x72\x07[string\x10org.example.User\x10java.lang.String" + "\x72\x07[object" + "M\x11java.util.HashMap\x05class\x10org.example.User\x04name\x01aZ\x01b" + attached, `0x2 20 0x9 "\x91H`},
	} {
		if _, err := c.Write(packetOf(0xc2, 0, 9, s.body)); err != nil {
			t.Fatal(err)
		}
		if got := readPacket(t, c).String(); !strings.HasPrefix(got, s.want) {
			t.Errorf("%s: %s, want %s", s.name, got, s.want)
		}
	}
}

// TestSharedObjects: an object that a value has twice, or within itself, arrives as one object, and one by its own struct, too.
func TestSharedObjects(t *testing.T) {
	p := start(t, Limits{}, nil)
	ann := &Employee{Person: Person{ID: 1, Name: "Ann"}, Hired: time.UnixMilli(1700000000000)}
	ann.Boss = ann
	for name, cl := range map[string]rpc.Caller{"Triple": p.grpc, "dubbo": p.dubbo} {
		got, err := Invoke[[]any](testkit.Context(t), cl, key, "any", []any{[]any{ann, ann, Person{ID: 2}}})
		if err != nil || len(got) != 3 {
			t.Fatalf("%s: %d values, %v", name, len(got), err)
		}
		e, _ := got[0].(*Employee)
		if e == nil || e.Name != "Ann" || e.Boss != e || got[1] != any(e) || !reflect.DeepEqual(got[2], &Person{ID: 2}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
