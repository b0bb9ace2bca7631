package rpc

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/executor"
)

type (
	declareReq  struct{ N int }
	declareResp struct{ N int }
)

// wellDeclared has an operation of every form, by field and by method.
type wellDeclared struct {
	Declared `interface:"a.B" group:"g" version:"1.10" protocol:"x, y" timeout:"1500" in-flight:"7" executor:"threadpool=eager threads=10 corethreads=2 queues=3 alive=60s"`

	Field   func(context.Context, *declareReq) (*declareResp, error)
	Renamed func(context.Context, *declareReq) error `method:"other"`
	Bytes   func(context.Context, []byte) ([]byte, error)
	Message func(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
	Bare    func(context.Context) (*wrapperspb.BytesValue, error)
	Poke    func(context.Context) error
	Left    func() `method:"-"`
	Text    string
}

func (wellDeclared) ByValue(_ context.Context, r *declareReq) (*declareResp, error) {
	return &declareResp{r.N + 1}, nil
}
func (*wellDeclared) ByPointer(context.Context, *[]byte) error { return context.Canceled }
func (*wellDeclared) Close() error                             { return nil } // no operation

// TestDeclaration: the tags of a struct are the options that Register takes, and its functions the methods that Unary, OneWay and Raw make.
func TestDeclaration(t *testing.T) {
	d := &wellDeclared{
		Field:   func(_ context.Context, r *declareReq) (*declareResp, error) { return &declareResp{r.N * 2}, nil },
		Renamed: func(context.Context, *declareReq) error { return nil },
		Bytes:   func(_ context.Context, b []byte) ([]byte, error) { return append(b, '!'), nil },
		Message: func(_ context.Context, m *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) { return nil, nil },
		Bare:    func(context.Context) (*wrapperspb.BytesValue, error) { return wrapperspb.Bytes([]byte("bare")), nil },
		Poke:    func(context.Context) error { return nil },
	}
	svc, opts, err := declaration(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Key{"g", "a.B", "1.10"}); svc.Key() != want {
		t.Errorf("key %v, want %v", svc.Key(), want)
	}
	var r registration
	for _, o := range opts {
		if err := o(&r); err != nil {
			t.Fatal(err)
		}
	}
	want := PoolOptions{Kind: PoolEager, Threads: 10, CoreThreads: 2, Queue: 3, KeepAlive: 60 * time.Second}
	if r.timeout != 1500*time.Millisecond || r.limit != 7 || strings.Join(r.portNames, ",") != "x,y" || r.options == nil || *r.options != want {
		t.Errorf("timeout %v, in flight %d, ports %q, pool %+v", r.timeout, r.limit, r.portNames, r.options)
	}
	typed := func(context.Context, *declareReq) (*declareResp, error) { return nil, nil }
	for i, want := range []Method{
		Unary("Field", typed),
		OneWay("other", func(context.Context, *declareReq) error { return nil }),
		Raw("Bytes", d.Bytes),
		Unary("Message", d.Message),
		{name: "Bare", takes: [codecs]bool{false, true, true}, types: [2]string{"", "google.protobuf.BytesValue"}},
		{name: "Poke", oneWay: true, takes: [codecs]bool{true, true, true}},
		OneWay("ByPointer", func(context.Context, *[]byte) error { return nil }),
		Unary("ByValue", typed),
	} {
		if got := svc.Methods()[i]; got.name != want.name || got.oneWay != want.oneWay || got.takes != want.takes || got.types != want.types || (got.raw == nil) != (want.raw == nil) {
			t.Errorf("method %d is %q, one-way %v, codecs %v, want %q, %v, %v", i, got.name, got.oneWay, got.Codecs(), want.name, want.oneWay, want.Codecs())
		}
	}
	if n := len(svc.Methods()); n != 8 {
		t.Errorf("%d methods, want 8", n)
	}
	declaredCalls(t, svc)
}

// declaredCalls: what reflection calls returns what the function did.
func declaredCalls(t *testing.T, svc *Service) {
	m := map[string]Method{}
	for _, method := range svc.Methods() {
		m[method.name] = method
	}
	ctx := context.Background()
	req, ok := m["Field"].newReq().(*declareReq)
	if !ok {
		t.Fatalf("a request of Field is a %T", m["Field"].newReq())
	}
	req.N = 21
	if resp, err := m["Field"].call(ctx, req); err != nil || resp.(*declareResp).N != 42 {
		t.Errorf("Field: %v, %v", resp, err)
	}
	if resp, err := m["ByValue"].call(ctx, req); err != nil || resp.(*declareResp).N != 22 {
		t.Errorf("ByValue: %v, %v", resp, err)
	}
	if resp, err := m["other"].call(ctx, req); err != nil || resp != nil {
		t.Errorf("other: %v, %v", resp, err)
	}
	if resp, err := m["ByPointer"].call(ctx, &[]byte{}); err != context.Canceled || resp != nil {
		t.Errorf("ByPointer: %v, %v", resp, err)
	}
	if resp, err := m["Bytes"].raw(ctx, []byte("x")); err != nil || string(resp) != "x!" {
		t.Errorf("Bytes: %q, %v", resp, err)
	}
	for _, wrong := range []any{nil, 5, &declareResp{}} {
		if _, err := m["Field"].call(ctx, wrong); err == nil {
			t.Errorf("Field takes a %T", wrong)
		}
	}
}

// TestDeclarationErrors: each names the struct and the field.
func TestDeclarationErrors(t *testing.T) {
	type op = func(context.Context, *declareReq) (*declareResp, error)
	fn := op(func(context.Context, *declareReq) (*declareResp, error) { return nil, nil })
	pool, err := executor.NewFixed(executor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	pools := map[string]*executor.Pool{"p": pool, "none": nil}
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "not by a <nil>"},
		{5, "not by a int"},
		{(*wellDeclared)(nil), "not by a *rpc.wellDeclared"},
		{struct{ F op }{fn}, "embeds no rpc.Declared"},
		{struct {
			D Declared `interface:"a"`
			F op
		}{F: fn}, "embeds no rpc.Declared"},
		{struct {
			Declared
			F op
		}{F: fn}, "the interface is empty"},
		{struct {
			Declared `interface:"a b"`
			F        op
		}{F: fn}, `.Declared: the tags interface, group and version: rpc: key "/a b:"`},
		{struct {
			Declared `interface:"a" timeouts:"3s"`
			F        op
		}{F: fn}, `.Declared: the tag timeouts:"3s" is unknown: want interface, group, version, protocol, timeout, in-flight or executor`},
		{struct {
			Declared `interface:"a" timeout:"soon"`
			F        op
		}{F: fn}, `the tag timeout:"soon" is no duration above 0`},
		{struct {
			Declared `interface:"a" timeout:"0"`
			F        op
		}{F: fn}, `the tag timeout:"0" is no duration above 0`},
		{struct {
			Declared `interface:"a" protocol:"x,,y"`
			F        op
		}{F: fn}, `the tag protocol:"x,,y" has an empty name`},
		{struct {
			Declared `interface:"a" in-flight:"-1"`
			F        op
		}{F: fn}, `the tag in-flight:"-1" is no number above 0`},
		{struct {
			Declared `interface:"a" executor:"q"`
			F        op
		}{F: fn}, `the tag executor:"q" names none of the pools`},
		{struct {
			Declared `interface:"a" executor:"none"`
			F        op
		}{F: fn}, `the tag executor:"none" names none of the pools`},
		{struct {
			Declared `interface:"a" executor:"threads=many"`
			F        op
		}{F: fn}, `the tag executor:"threads=many" is wrong at threads=many`},
		{struct {
			Declared `interface:"a" executor:"threads=0"`
			F        op
		}{F: fn}, `is wrong at threads=0: it is not above 0`},
		{struct {
			Declared `interface:"a" executor:"queues=-1"`
			F        op
		}{F: fn}, `is wrong at queues=-1: it is below 0`},
		{struct {
			Declared `interface:"a" executor:"alive=0"`
			F        op
		}{F: fn}, `is wrong at alive=0: it is not above 0`},
		{struct {
			Declared `interface:"a" executor:"threadpool=virtual"`
			F        op
		}{F: fn}, `is wrong at threadpool=virtual: rpc: pool kind "virtual"`},
		{struct {
			Declared `interface:"a" executor:"threads=5 x=1"`
			F        op
		}{F: fn}, `is wrong at x=1: the keys are threadpool`},
		{struct {
			Declared `interface:"a"`
		}{}, "declares no operation"},
		{struct {
			Declared `interface:"a"`
			F        op
		}{}, "F is nil"},
		{struct {
			Declared `interface:"a"`
			F        func(context.Context)
		}{F: func(context.Context) {}}, ".F: func(context.Context) is no operation: want"},
		{struct {
			Declared `interface:"a"`
			F        func(context.Context, declareReq) error
		}{F: func(context.Context, declareReq) error { return nil }}, "is no operation"},
		{struct {
			Declared `interface:"a"`
			F        func(context.Context, *declareReq) (declareResp, error)
		}{F: func(context.Context, *declareReq) (declareResp, error) { return declareResp{}, nil }}, "is no operation"},
		{struct {
			Declared `interface:"a"`
			F        func(context.Context, *declareReq) *declareResp
		}{F: func(context.Context, *declareReq) *declareResp { return nil }}, "is no operation"},
		{struct {
			Declared `interface:"a"`
			F        func(context.Context, ...*declareReq) error
		}{F: func(context.Context, ...*declareReq) error { return nil }}, "is no operation"},
		{struct {
			Declared `interface:"a"`
			F        op
			G        op `method:"F"`
		}{F: fn, G: fn}, `has two methods "F"`},
		{badMethod{}, "method rpc.badMethod.Wrong: func(context.Context, int) error is no operation"},
	} {
		if _, _, err := declaration(c.v, pools); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "rpc: ") {
			t.Errorf("%T: %v\nwant %s", c.v, err, c.want)
		}
	}
}

// TestTagPairs: what does not have the form of tags is refused, where reflect would pass over it.
func TestTagPairs(t *testing.T) {
	for tag, want := range map[string]string{`interface:a`: `"interface:a"`, `a:"1" b`: `"b"`, `a:"1`: `"a:\"1"`, `:"1"`: `":\"1\""`, `a b:"1"`: `"a b:`} {
		if pairs, err := tagPairs(reflect.StructTag(tag)); err == nil || !strings.Contains(err.Error(), "the tags end at "+want) {
			t.Errorf("%s: %v, %v", tag, pairs, err)
		}
	}
	if _, _, err := declaredTags("T", reflect.StructTag(`interface:"a" interface:"b"`), nil); err == nil || !strings.Contains(err.Error(), `T.Declared: the tag interface:"b" is there twice`) {
		t.Errorf("%v", err)
	}
	if pairs, err := tagPairs(` a:"1,\"2\""  b:""`); err != nil || len(pairs) != 2 || pairs[0] != (Pair{"a", `1,"2"`}) || pairs[1] != (Pair{"b", ""}) {
		t.Errorf("%q, %v", pairs, err)
	}
}

type badMethod struct {
	Declared `interface:"a"`
}

func (badMethod) Wrong(context.Context, int) error { return nil }
