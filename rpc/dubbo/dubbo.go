// Package dubbo serves and calls services of Apache Dubbo that have no .proto file, by Triple: interfaces of Java, and
// services of dubbo-go. Arguments and results are values of Hessian 2.0.
//
//	type users struct{}
//
//	func (users) GetUser(ctx context.Context, id int64) (*User, error) { ... }
//
//	dubbo.RegisterClass("org.example.User", User{})
//	svc, err := dubbo.NewService(rpc.Key{Interface: "org.example.UserProvider"}, users{}, dubbo.Limits{})
//	err = srv.Register(svc)
//
//	user, err := dubbo.Invoke[*User](ctx, client, key, "getUser", []any{int64(1)})
//
// The package is a module of its own, so that programs without Dubbo do not have its libraries in their graph.
package dubbo

import (
	"context"
	"fmt"
	"reflect"
	"unicode"
	"unicode/utf8"

	"github.com/go-eddy/eddy/rpc"
)

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

// NewService returns a service of the exported methods of impl that are a
// func(ctx context.Context, a A, b B, ...) (R, error), or without R. Each has its name and the same with a lower first
// letter, as Java writes it. Pools, limits and interceptors are those of any rpc.Service; interceptors see bytes.
//
// A call that does not fit is INVALID_ARGUMENT, and says which argument is wrong. A method's error is that of rpc: a
// *rpc.Status keeps its code. The zero Limits are the defaults. The error names the key, or the method that is none.
func NewService(key rpc.Key, impl any, l Limits) (*rpc.Service, error) {
	of := reflect.ValueOf(impl)
	if !of.IsValid() {
		return nil, fmt.Errorf("dubbo: service %v has no implementation: impl is nil", key)
	}
	var methods []rpc.Method
	for i := range of.NumMethod() {
		name := of.Type().Method(i).Name
		fn := of.Method(i)
		if fn.Type().NumIn() == 0 || fn.Type().In(0) != contextType {
			continue
		}
		m, err := newMethod(name, fn, l)
		if err != nil {
			return nil, fmt.Errorf("dubbo: service %v: %w", key, err)
		}
		methods = append(methods, rpc.Raw(name, m.call), rpc.Raw(lower(name), m.call))
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("dubbo: %T has no operation: an exported method that is a func(context.Context, ...) (R, error)", impl)
	}
	return rpc.NewService(key, methods...)
}

// lower returns a name as Java writes it.
func lower(name string) string {
	r, n := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(r)) + name[n:]
}

// A method is one operation of a service.
type method struct {
	name   string
	fn     reflect.Value
	in     []reflect.Type
	limits Limits
}

func newMethod(name string, fn reflect.Value, l Limits) (*method, error) {
	t := fn.Type()
	if t.IsVariadic() || t.NumOut() < 1 || t.NumOut() > 2 || t.Out(t.NumOut()-1) != errorType || t.NumIn() > maxValues {
		return nil, fmt.Errorf("method %s: a %v is no operation: want func(context.Context, ...) (R, error), or without R", name, t)
	}
	m := &method{name: name, fn: fn, limits: l}
	for i := 1; i < t.NumIn(); i++ {
		m.in = append(m.in, t.In(i))
	}
	return m, nil
}

// call answers one call.
func (m *method) call(ctx context.Context, body []byte) ([]byte, error) {
	w, err := parseWrapper(body)
	if err == nil && len(w.values) != len(m.in) {
		err = fmt.Errorf("%d arguments, want %d", len(w.values), len(m.in))
	}
	if err != nil {
		return nil, rpc.Statusf(rpc.CodeInvalidArgument, "%s: %v", m.name, err)
	}
	in := []reflect.Value{reflect.ValueOf(&ctx).Elem()}
	for i, t := range m.in {
		v := reflect.New(t).Elem()
		if err := decode(w.values[i], v, m.limits); err != nil {
			return nil, rpc.Statusf(rpc.CodeInvalidArgument, "%s: argument %d: %v", m.name, i+1, err)
		}
		in = append(in, v)
	}
	out := m.fn.Call(in)
	if err, _ := out[len(out)-1].Interface().(error); err != nil {
		return nil, err
	}
	var result any
	if len(out) == 2 {
		result = out[0].Interface()
	}
	answer := wrapper{serialization: serialization}
	if err := answer.add(result); err != nil {
		return nil, fmt.Errorf("dubbo: the result of %s: %w", m.name, err)
	}
	return answer.append(nil), nil
}

// add adds a value.
func (w *wrapper) add(v any) error {
	kind := ""
	if a, ok := v.(Arg); ok {
		v, kind = a.Value, a.Type
	}
	if kind == "" {
		kind = javaType(v)
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
		v = nil
	}
	b, err := encode(v)
	if err != nil {
		return err
	}
	w.values, w.types = append(w.values, b), append(w.types, kind)
	return nil
}

// Invoke calls an operation of a service that has no .proto file, and returns its result. Arguments are values whose types
// Java names alike, structs of RegisterClass, lists and maps of them; see Arg for the others. Resp is any for operations
// without a result.
//
// Errors are those of rpc.Invoke. A result that is no Resp, or beyond the default Limits, is rpc.ErrResponse. The content type says hessian2;
// rpc.CallSubtype("proto") is for servers that do not know that word.
func Invoke[Resp any](ctx context.Context, cl *rpc.GRPCClient, key rpc.Key, operation string, args []any, opts ...rpc.CallOption) (Resp, error) {
	var resp Resp
	req := wrapper{serialization: serialization}
	for i, a := range args {
		if err := req.add(a); err != nil {
			return resp, fmt.Errorf("dubbo: argument %d of %s: %w", i+1, operation, err)
		}
	}
	body, err := rpc.Invoke[[]byte](ctx, cl, key, operation, req.append(nil), append([]rpc.CallOption{rpc.CallSubtype(serialization)}, opts...)...)
	if err != nil {
		return resp, err
	}
	w, err := parseWrapper(*body)
	if err == nil && len(w.values) == 0 {
		err = errNoValue
	}
	if err == nil {
		err = decode(w.values[0], reflect.ValueOf(&resp).Elem(), Limits{})
	}
	if err != nil {
		return resp, fmt.Errorf("%w: %s of %v: %w", rpc.ErrResponse, operation, key, err)
	}
	return resp, nil
}
