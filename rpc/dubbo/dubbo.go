// Package dubbo serves and calls services of Apache Dubbo that have no .proto file: interfaces of Java, and services of
// dubbo-go. They are reached by Triple and, with Front and ClientFront, by the dubbo protocol. Arguments and results are
// values of Hessian 2.0.
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
	"github.com/go-eddy/eddy/rpc/dubbo/internal/hessian"
)

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

// NewService returns a service of the exported methods of impl that are a
// func(ctx context.Context, a A, b B, ...) (R, error), or without R. Each has its name and the same with a lower first
// letter, as Java writes it. Pools, limits and interceptors are those of any rpc.Service; interceptors see bytes.
//
// Clients of Dubbo also find $echo, which returns its argument, and $invoke: a generic call, by clients that have maps in the place of
// classes. Interceptors see these names.
//
// A call that does not fit is INVALID_ARGUMENT, and says which argument is wrong. A method's error is that of rpc: a
// *rpc.Status keeps its code. The zero Limits are the defaults. The error names the key, or the method that is none.
func NewService(key rpc.Key, impl any, l Limits) (*rpc.Service, error) {
	of := reflect.ValueOf(impl)
	if !of.IsValid() {
		return nil, fmt.Errorf("dubbo: service %v has no implementation: impl is nil", key)
	}
	var methods []rpc.Method
	all := &operations{key: key, byName: map[string]*method{}, limits: l}
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
		all.byName[name], all.byName[lower(name)] = m, m
		methods = append(methods, rpc.Raw(name, m.call), rpc.Raw(lower(name), m.call))
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("dubbo: %T has no operation: an exported method that is a func(context.Context, ...) (R, error)", impl)
	}
	common, err := all.common()
	if err != nil {
		return nil, err
	}
	return rpc.NewService(key, append(methods, common...)...)
}

// lower returns a name as Java writes it.
func lower(name string) string {
	r, n := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(r)) + name[n:]
}

// A method is one operation of a service.
type method struct {
	name    string
	fn      reflect.Value
	in      []reflect.Type
	limits  Limits
	generic bool // it makes generic calls
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
	plain := len(body) > 0 && body[0] == callMark
	read := m.readWrapper
	var attached *attachments
	if plain {
		read, body = m.readPlain, body[1:]
		ctx, attached = attaching(ctx)
	}
	in := m.variables(ctx)
	if err := read(body, in[1:]); err != nil {
		return nil, rpc.Statusf(rpc.CodeInvalidArgument, "%s: %v", m.name, err)
	}
	answer := wrapper{serialization: serialization}
	result, err := m.run(in)
	if err == nil {
		if err = answer.add(result); err != nil {
			err = fmt.Errorf("dubbo: the result of %s: %w", m.name, err)
		}
	}
	switch {
	case !plain && err != nil:
		return nil, err
	case !plain:
		return answer.append(nil), nil
	case err != nil:
		return nil, attached.failed(err, m.generic)
	}
	return attached.follow(answer.values[0]), nil
}

// variables are what a call gives the method: ctx, and the arguments, which are zero.
func (m *method) variables(ctx context.Context) []reflect.Value {
	in := []reflect.Value{reflect.ValueOf(&ctx).Elem()}
	for _, t := range m.in {
		in = append(in, reflect.New(t).Elem())
	}
	return in
}

// run calls the method, whose result is nil if it has none.
func (m *method) run(in []reflect.Value) (result any, err error) {
	out := m.fn.Call(in)
	if len(out) == 2 {
		result = out[0].Interface()
	}
	err, _ = out[len(out)-1].Interface().(error)
	return result, err
}

// readWrapper reads the arguments from a wrapper.
func (m *method) readWrapper(body []byte, in []reflect.Value) error {
	w, err := parseWrapper(body)
	if err != nil {
		return err
	}
	if err := m.count(len(w.values)); err != nil {
		return err
	}
	for i, v := range in {
		if err := decode(w.values[i], v, m.limits); err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return nil
}

// readPlain reads the arguments behind their types, as the dubbo protocol sends them.
func (m *method) readPlain(body []byte, in []reflect.Value) error {
	parts, err := hessian.Split(body, maxValues+1, m.limits)
	if err != nil {
		return err
	}
	if err := m.count(len(parts) - 1); err != nil {
		return err
	}
	r := newReader(body)
	if err := r.skip(); err != nil {
		return err
	}
	for i, v := range in {
		if err := r.read(v, m.limits); err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return nil
}

func (m *method) count(n int) error {
	if n != len(m.in) {
		return fmt.Errorf("%d arguments, want %d", n, len(m.in))
	}
	return nil
}
