package dubbo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
)

// Address and User are classes of the tests.
type (
	Address struct{ City string }
	User    struct {
		ID    int64
		Name  string
		Tags  []string
		Home  *Address
		Score map[string]float64
		Since time.Time
	}
)

func init() {
	RegisterClass("org.example.User", User{})
	RegisterClass("org.example.Address", Address{})
}

var key = rpc.Key{Interface: "org.example.UserProvider", Version: "1.0"}

var ann = &User{ID: 7, Name: "Ann Ünal 😀", Tags: []string{"a", "b"}, Home: &Address{"Köln"}, Score: map[string]float64{"x": 1.5}, Since: time.UnixMilli(1700000000123)}

// users is the service of the tests.
type users struct{}

func (users) GetUser(_ context.Context, id int64) (*User, error) {
	switch id {
	case 0:
		return nil, nil
	case 13:
		return nil, rpc.Statusf(rpc.CodeNotFound, "nobody has the number %d", id)
	}
	u := *ann
	u.ID = id
	return &u, nil
}

func (users) Rename(ctx context.Context, u *User, name string) (*User, error) {
	tenant, _ := rpc.CallFrom(ctx).Metadata.Get("tenant")
	u.Name = name + tenant
	return u, nil
}

func (users) Ping(context.Context) error { return nil }

func (users) Kinds(_ context.Context, a bool, b int8, c int16, d int32, e float32, f float64, g []byte, h []int32, i map[string]int, j *int, k User) (string, error) {
	return fmt.Sprint(a, b, c, d, e, f, g, h, i, j == nil, k.Home.City), nil
}

func (users) Any(_ context.Context, v any) (any, error) { return v, nil }

func (users) Lists(_ context.Context, v [][]string) (int, error) { return len(v), nil }

func (users) Func(context.Context) (func(), error) { return func() {}, nil }

// Close is no operation: it takes no context.
func (users) Close() error { return nil }

// A place is a server of the service, and clients of it by each protocol.
type place struct {
	srv           *rpc.Server
	addr          string
	grpc          *rpc.GRPCClient
	frames, dubbo *rpc.Client
}

// start starts a place. tune changes the options, and may be nil.
func start(t *testing.T, l Limits, tune func(o *rpc.ServerOptions), more ...rpc.Method) *place {
	t.Helper()
	svc, err := NewService(key, users{}, l)
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, l, tune, svc, more...)
}

// startWith is start with another service.
func startWith(t *testing.T, l Limits, tune func(o *rpc.ServerOptions), svc *rpc.Service, more ...rpc.Method) *place {
	t.Helper()
	o := rpc.ServerOptions{Ports: []rpc.PortOptions{{Addr: "127.0.0.1:0", Front: Front(Options{Limits: l})}}}
	if tune != nil {
		tune(&o)
	}
	p := &place{}
	var err error
	p.srv, err = rpc.NewServer(o)
	if err == nil {
		err = p.srv.Register(svc)
	}
	if err == nil && len(more) > 0 {
		if svc, err = rpc.NewService(rpc.Key{Interface: "org.example.More"}, more...); err == nil {
			err = p.srv.Register(svc)
		}
	}
	if err == nil {
		err = p.srv.Listen()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.addr = p.srv.Addr("port0").String()
	t.Cleanup(func() {
		if err := p.srv.Close(); err != nil && !errors.Is(err, rpc.ErrClosed) {
			t.Error(err)
		}
	})
	if p.grpc, err = rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + p.addr}, Timeout: testkit.Patience}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.grpc.Close() })
	p.frames = client(t, rpc.ClientOptions{Addrs: []string{p.addr}})
	p.dubbo = client(t, rpc.ClientOptions{Addrs: []string{p.addr}, Front: ClientFront(Options{Limits: l})})
	return p
}

func client(t *testing.T, o rpc.ClientOptions) *rpc.Client {
	t.Helper()
	o.Timeout, o.WaitForReady = testkit.Patience, true
	cl, err := rpc.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// serve is start for tests by Triple.
func serve(t *testing.T, l Limits) *rpc.GRPCClient {
	t.Helper()
	return start(t, l, nil).grpc
}

// TestCalls: arguments and results of every kind arrive as they were sent, by both names of an operation and by each protocol.
func TestCalls(t *testing.T) {
	p := start(t, Limits{}, nil)
	for name, cl := range map[string]rpc.Caller{"Triple": p.grpc, "frames": p.frames, "dubbo": p.dubbo} {
		t.Run(name, func(t *testing.T) { testCalls(t, cl) })
	}
}

func testCalls(t *testing.T, cl rpc.Caller) {
	ctx := testkit.Context(t)
	for _, name := range []string{"getUser", "GetUser"} {
		want := *ann
		want.ID = 8
		if u, err := Invoke[*User](ctx, cl, key, name, []any{int64(8)}); err != nil || !reflect.DeepEqual(*u, want) {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
	if u, err := Invoke[User](ctx, cl, key, "getUser", []any{8}); err != nil || u.ID != 8 {
		t.Errorf("a value: %+v, %v", u, err)
	}
	if u, err := Invoke[*User](ctx, cl, key, "getUser", []any{int32(0)}); err != nil || u != nil {
		t.Errorf("null: %+v, %v", u, err)
	}
	u, err := Invoke[*User](ctx, cl, key, "rename", []any{ann, "Bea"}, rpc.CallMetadata(rpc.Pair{Key: "tenant", Value: "@x"}))
	if err != nil || u.Name != "Bea@x" || u.Home.City != "Köln" {
		t.Errorf("a struct: %+v, %v", u, err)
	}
	if got, err := Invoke[any](ctx, cl, key, "ping", nil); err != nil || got != nil {
		t.Errorf("no result: %v, %v", got, err)
	}
	got, err := Invoke[string](ctx, cl, key, "kinds", []any{true, int8(-1), int16(2), int32(3), float32(0.5), 1.25, []byte{1, 2}, []int32{3, 4}, map[string]int{"a": 1}, nil, ann})
	if want := "true -1 2 3 0.5 1.25 [1 2] [3 4] map[a:1] trueKöln"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, v := range []any{nil, true, int32(5), int64(math.MaxInt64), 0.1, "text", strings.Repeat("ü😀", 20000), []byte{9}} {
		if got, err := Invoke[any](ctx, cl, key, "any", []any{v}); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%.20v: %.20v, %v", v, got, err)
		}
	}
	list, err := Invoke[[]any](ctx, cl, key, "any", []any{[]any{int32(1), "b", nil}})
	if err != nil || !slices.Equal(list, []any{int32(1), "b", nil}) {
		t.Errorf("%v, %v", list, err)
	}
	table, err := Invoke[map[string]int64](ctx, cl, key, "any", []any{map[string]int32{"a": 1}})
	if err != nil || !maps.Equal(table, map[string]int64{"a": 1}) {
		t.Errorf("%v, %v", table, err)
	}
	if got, err := Invoke[int64](ctx, cl, key, "any", []any{Arg{Type: "java.lang.Long", Value: int64(3)}}); err != nil || got != 3 {
		t.Errorf("a named type: %v, %v", got, err)
	}
}

// board is a service whose operation has no result.
type board struct{ notes chan string }

func (b board) Note(ctx context.Context, u *User, more string) error {
	tenant, _ := rpc.CallFrom(ctx).Metadata.Get("tenant")
	b.notes <- u.Name + more + tenant
	return errors.New("nobody is told")
}

// TestSend: a one-way call arrives by each protocol, and its error does not come back. Arguments that are none are an error at once.
func TestSend(t *testing.T) {
	b, k, ctx := board{make(chan string, 1)}, rpc.Key{Interface: "org.example.Board", Group: "g"}, testkit.Context(t)
	svc, err := NewService(k, b, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p := startWith(t, Limits{}, nil, svc)
	for name, cl := range map[string]rpc.Caller{"Triple": p.grpc, "frames": p.frames, "dubbo": p.dubbo} {
		if err := Send(ctx, cl, k, "note", []any{ann, " by " + name}, rpc.CallMetadata(rpc.Pair{Key: "tenant", Value: "@x"})); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, want := testkit.Receive(t, "the note", b.notes), ann.Name+" by "+name+"@x"; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if err := Send(ctx, cl, k, "note", []any{ann, func() {}}); err == nil || !strings.Contains(err.Error(), "argument 2 of note") {
			t.Errorf("%s: an argument that is none: %v", name, err)
		}
		if err := Send(ctx, cl, rpc.Key{}, "note", []any{ann, ""}); err == nil || !strings.Contains(err.Error(), "the interface is empty") {
			t.Errorf("%s: no key: %v", name, err)
		}
	}
}

// named is a class that says its own name, by a method that a nil pointer does not have.
type named struct{ Name string }

func (named) JavaClassName() string { return "org.example.Named" }

// TestJavaTypes: a nil pointer is of the type that it could lead to.
func TestJavaTypes(t *testing.T) {
	for want, v := range map[string]any{
		"org.example.Named": (*named)(nil), "org.example.User": (*User)(nil), "long": (*int64)(nil), "java.lang.Object": nil, "java.util.List": []any{},
	} {
		if got := javaType(v); got != want {
			t.Errorf("a %T: %s, want %s", v, got, want)
		}
	}
}

// TestErrors: calls that do not fit, and results that do not, say what is wrong. The connection goes on.
func TestErrors(t *testing.T) {
	ctx, cl := testkit.Context(t), serve(t, Limits{Depth: 5, Values: 100})
	deep := any("x")
	for range 6 {
		deep = []any{deep}
	}
	for name, c := range map[string]struct {
		operation string
		args      []any
		code      rpc.Code
		text      string
	}{
		"a status":              {"getUser", []any{13}, rpc.CodeNotFound, "nobody has the number 13"},
		"no such operation":     {"close", nil, rpc.CodeUnimplemented, "no method"},
		"too few arguments":     {"rename", []any{ann}, rpc.CodeInvalidArgument, "Rename: 1 arguments, want 2"},
		"another type":          {"getUser", []any{"x"}, rpc.CodeInvalidArgument, "GetUser: argument 1: a string is no int64"},
		"a number out of range": {"kinds", []any{true, 300, 2, 3, 0, 0, nil, nil, nil, nil, ann}, rpc.CodeInvalidArgument, "argument 2: a int64 is no int8"},
		"another class":         {"rename", []any{&Address{"x"}, "y"}, rpc.CodeInvalidArgument, "argument 1: a dubbo.Address is no dubbo.User"},
		"too deep":              {"any", []any{deep}, rpc.CodeInvalidArgument, "5"},
		"too many values":       {"any", []any{make([]any, 200)}, rpc.CodeInvalidArgument, "100"},
		"no result of Hessian":  {"func", nil, rpc.CodeUnknown, "the result of Func: a func() in Hessian 2.0"},
	} {
		_, err := Invoke[any](ctx, cl, key, c.operation, c.args)
		if rpc.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v (%v), want %v %q", name, err, rpc.CodeOf(err), c.code, c.text)
		}
	}
	if _, err := Invoke[int](ctx, cl, key, "any", []any{"x"}); !errors.Is(err, rpc.ErrResponse) || !strings.Contains(err.Error(), "a string is no int") {
		t.Errorf("another result: %v", err)
	}
	if _, err := Invoke[any](ctx, cl, key, "any", []any{func() {}}); err == nil || !strings.Contains(err.Error(), "argument 1 of any: a func() in Hessian 2.0") {
		t.Errorf("an argument: %v", err)
	}
	if u, err := Invoke[*User](ctx, cl, key, "getUser", []any{8}); err != nil || u.ID != 8 {
		t.Errorf("%v", err)
	}
}

// TestHostile: bytes that no client of Dubbo writes are refused, at once and with little memory.
func TestHostile(t *testing.T) {
	ctx, cl := testkit.Context(t), serve(t, Limits{Values: 1000})
	own := func(values ...[]byte) []byte {
		return wrapper{serialization: serialization, values: values}.append(nil)
	}
	class := []byte("C\x10org.example.User\x91\x02id")
	for name, c := range map[string]struct {
		operation string
		body      []byte
		text      string
	}{
		"no wrapper":              {"any", []byte{0xff}, "no wrapper of Triple"},
		"a wrapper cut short":     {"any", own([]byte("N"))[:8], "no wrapper of Triple"},
		"another serialization":   {"any", wrapper{serialization: "fastjson2", values: [][]byte{[]byte("N")}}.append(nil), `a wrapper with "fastjson2", want hessian2`},
		"more values than Java":   {"any", own(make([][]byte, 256)...), "more than 255 values"},
		"no value":                {"any", own(nil), "argument 1"},
		"bytes behind it":         {"any", own([]byte("NN")), "1 bytes behind the value"},
		"a list of two billion":   {"any", own([]byte("XI\x7f\xff\xff\xff")), "argument 1"},
		"deeper than any stack":   {"any", own(append(slices.Repeat([]byte{0x79}, 1<<19), 'N')), "argument 1"},
		"a field of another type": {"rename", own(append(class, 0x60, 0x01, 'x'), []byte("\x01y")), "argument 1"},
		"a class without one":     {"any", own([]byte("\x60N")), "argument 1"},
	} {
		_, err := rpc.Invoke[[]byte](ctx, cl, key, c.operation, c.body, rpc.CallSubtype(serialization))
		if rpc.CodeOf(err) != rpc.CodeInvalidArgument || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", name, err, c.text)
		}
	}
	// A list of 90 texts and 89 references to it is a message of 400 bytes, and 8,100 texts.
	b := append([]byte{0x58, 0xc8, 90, 0x58, 0xc8, 90}, strings.Repeat("\x01x", 90)...)
	b = append(b, strings.Repeat("\x51\x91", 89)...)
	if _, err := rpc.Invoke[[]byte](ctx, cl, key, "lists", own(b), rpc.CallSubtype(serialization)); rpc.CodeOf(err) != rpc.CodeInvalidArgument || !strings.Contains(err.Error(), "by references") {
		t.Errorf("references: %v", err)
	}
	if u, err := Invoke[*User](ctx, cl, key, "getUser", []any{8}); err != nil || u.ID != 8 {
		t.Errorf("a call behind them: %v", err)
	}
}

// TestNewService: what is no service is refused, with the name of what is wrong.
func TestNewService(t *testing.T) {
	for name, c := range map[string]struct {
		key  rpc.Key
		impl any
		text string
	}{
		"nothing":        {key, nil, "impl is nil"},
		"no operation":   {key, struct{}{}, "has no operation"},
		"a wrong method": {key, wrongUsers{}, "method Add: a func(context.Context, ...int64) error is no operation"},
		"no key":         {rpc.Key{}, users{}, "interface"},
	} {
		if _, err := NewService(c.key, c.impl, Limits{}); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", name, err, c.text)
		}
	}
}

// TestRegisterClass: what is no class is told at once.
func TestRegisterClass(t *testing.T) {
	for _, of := range []any{nil, 1, new(int)} {
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.Contains(r, "class org.example.No: a ") {
					t.Errorf("%T: %s", of, r)
				}
			}()
			RegisterClass("org.example.No", of)
		}()
	}
}

type wrongUsers struct{}

func (wrongUsers) Add(context.Context, ...int64) error { return nil }
