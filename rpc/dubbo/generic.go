package dubbo

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	hessian2 "github.com/apache/dubbo-go-hessian2"

	"github.com/go-eddy/eddy/rpc"
)

// The operations that each service has besides its own.
const (
	operationEcho    = "$echo"
	operationGeneric = "$invoke"
)

// genericKey is the attachment that says how a generic call has its arguments.
const genericKey = "generic"

// echo returns its argument: clients of Dubbo ask by it whether a service is there.
func echo(_ context.Context, v any) (any, error) { return v, nil }

// operations are those of one service by their names. Its generic calls are made by them.
type operations struct {
	key    rpc.Key
	byName map[string]*method
	limits Limits
}

// common returns the operations that each service has.
func (o *operations) common() ([]rpc.Method, error) {
	var list []rpc.Method
	for _, c := range []struct {
		name string
		fn   any
	}{{operationEcho, echo}, {operationGeneric, o.invoke}, {operationGeneric + "Async", o.invoke}} {
		m, err := newMethod(c.name, reflect.ValueOf(c.fn), o.limits)
		if err != nil {
			return nil, err
		}
		m.generic = c.name != operationEcho
		list = append(list, rpc.Raw(c.name, m.call))
	}
	return list, nil
}

// invoke makes a generic call: arguments and result have maps in the place of objects. A name is one operation in Go, so the types of the arguments are not needed.
func (o *operations) invoke(ctx context.Context, name string, _ any, args []any) (any, error) {
	kind := ""
	if info := rpc.CallFrom(ctx); info != nil {
		kind, _ = info.Metadata.Get(genericKey)
	}
	if !slices.Contains([]string{"", "true", "raw.return"}, strings.ToLower(kind)) {
		return nil, rpc.Statusf(rpc.CodeUnimplemented, "generic calls of the kind %q: this server takes true and raw.return", kind)
	}
	m := o.byName[name]
	if m == nil {
		return nil, rpc.Statusf(rpc.CodeUnimplemented, "service %v has no method %q", o.key, name)
	}
	if err := m.count(len(args)); err != nil {
		return nil, rpc.Statusf(rpc.CodeInvalidArgument, "%s: %v", m.name, err)
	}
	in, a := m.variables(ctx), newAssigner(o.limits)
	for i, v := range in[1:] {
		if err := a.assign(v, reflect.ValueOf(args[i])); err != nil {
			return nil, rpc.Statusf(rpc.CodeInvalidArgument, "%s: argument %d: %v", m.name, i+1, err)
		}
	}
	result, err := m.run(in)
	if err != nil || strings.EqualFold(kind, "raw.return") {
		return result, err
	}
	g := generalizer{key: keyOfMap}
	return g.of(reflect.ValueOf(result)), nil
}

// InvokeGeneric is Invoke for programs that have no structs for the classes of the server: objects are maps of their fields, and say by the key "class" which
// class they are. types are Java's names of the operation's parameters; servers in Go do not need them. A GenericException is the error of Invoke with the class
// and the text that it names.
func InvokeGeneric[Resp any](ctx context.Context, cl rpc.Caller, key rpc.Key, operation string, types []string, args []any, opts ...rpc.CallOption) (Resp, error) {
	list := make([]hessian2.Object, len(args)) // Java's Object[]; []any is a List
	for i, v := range args {
		list[i], _ = argument(v)
	}
	opts = append([]rpc.CallOption{rpc.CallMetadata(rpc.Pair{Key: genericKey, Value: "true"})}, opts...)
	return Invoke[Resp](ctx, cl, key, operationGeneric, []any{operation, types, Arg{Type: "[Ljava.lang.Object;", Value: list}}, opts...)
}

// A generalizer makes maps of the structs of RegisterClass in a value, with their class by a key.
type generalizer struct {
	key   string
	seen  map[spot]any // what was made of the pointers, lists and maps so far: values may refer to themselves
	again bool         // something was met a second time
}

// The keys of a class: that of generic calls, and the one by which the encoder writes a map as an object.
const (
	keyOfMap    = "class"
	keyOfObject = hessian2.ClassKey
)

type spot struct {
	at  unsafe.Pointer
	len int
	of  reflect.Type
}

func (g *generalizer) of(v reflect.Value) any {
	for v.IsValid() && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil
	}
	p := spot{of: v.Type()}
	switch v.Kind() {
	case reflect.Struct:
		return g.object(p, v)
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() {
			return nil
		}
		p.at = v.UnsafePointer()
	case reflect.Array:
	default:
		return v.Interface()
	}
	if v.Kind() == reflect.Slice {
		p.len = v.Len()
	}
	if made, ok := g.seen[p]; ok {
		g.again = true
		return made
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.Elem().Kind() == reflect.Pointer {
			return g.of(v.Elem())
		}
		return g.object(p, v)
	case reflect.Map:
		return g.entries(p, v)
	}
	return g.list(p, v)
}

// object returns the map of a struct that is a class, and other values, such as dates, as they are. v may be the pointer to it.
func (g *generalizer) object(p spot, v reflect.Value) any {
	of := reflect.Indirect(v)
	class, ok := classes.Load(of.Type())
	if !ok {
		return v.Interface()
	}
	m := map[string]any{g.key: class}
	g.remember(p, m)
	g.fields(m, of)
	return m
}

func (g *generalizer) fields(m map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, ok := javaField(f)
		switch {
		case !ok:
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			g.fields(m, v.Field(i))
		default:
			m[name] = g.of(v.Field(i))
		}
	}
}

func (g *generalizer) entries(p spot, v reflect.Value) any {
	m := make(map[any]any, v.Len())
	g.remember(p, m)
	for it := v.MapRange(); it.Next(); {
		m[it.Key().Interface()] = g.of(it.Value())
	}
	return m
}

// list returns the list of values, which is the one that there is if they are numbers or texts.
func (g *generalizer) list(p spot, v reflect.Value) any {
	if k := v.Type().Elem().Kind(); k <= reflect.Complex128 || k == reflect.String {
		return v.Interface()
	}
	list := make([]any, v.Len())
	g.remember(p, list)
	for i := range list {
		list[i] = g.of(v.Index(i))
	}
	return list
}

func (g *generalizer) remember(p spot, made any) {
	if p.at == nil {
		return
	}
	if g.seen == nil {
		g.seen = map[spot]any{}
	}
	g.seen[p] = made
}

// javaField returns the name that Java has for a field, false if it has none.
func javaField(f reflect.StructField) (name string, ok bool) {
	name, tagged := f.Tag.Lookup("hessian")
	if !tagged {
		name = lower(f.Name)
	}
	return name, f.IsExported() && name != "-"
}

// assignFields gives a struct of RegisterClass the entries of a map. Entries that it has no field for are passed over, as Java does.
func (a *assigner) assignFields(dst, v reflect.Value) error {
	for i := range dst.NumField() {
		f := dst.Type().Field(i)
		name, ok := javaField(f)
		switch {
		case !ok:
			continue
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			if err := a.assignFields(dst.Field(i), v); err != nil {
				return err
			}
			continue
		}
		for _, name := range []string{name, f.Name, strings.ToLower(f.Name)} { // as an object's fields are found
			key := reflect.ValueOf(name)
			if !key.Type().AssignableTo(v.Type().Key()) {
				break
			}
			entry := v.MapIndex(key)
			if !entry.IsValid() {
				continue
			}
			if err := a.assign(dst.Field(i), entry); err != nil {
				return fmt.Errorf("field %s: %w", name, err)
			}
			break
		}
	}
	return nil
}
