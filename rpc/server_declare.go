package rpc

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// Declared, embedded in a struct, declares a service: pass the struct to Server.Declare. Its tags say what otherwise the
// options of Register or a configuration file say:
//
//	type Greeter struct {
//		rpc.Declared `interface:"demo.Greeter" group:"Group1" version:"1.0" protocol:"frame,tri" timeout:"3s" executor:"greeter"`
//
//		Hello func(ctx context.Context, req *HelloRequest) (*HelloResponse, error)
//		Log   func(ctx context.Context, req *LogRequest) error `method:"log"`
//	}
//
// The operations are the exported fields that are functions, and the exported methods whose first parameter is a
// context.Context. If a pointer is given, methods of the pointer count, too. An exported method Stop(ctx) error is an
// operation that clients can call. The forms are:
//
//	func(ctx context.Context, req *Req) (*Resp, error)        // as Unary
//	func(ctx context.Context, req *Req) error                 // as OneWay
//	func(ctx context.Context) (*Resp, error)                  // as Unary, without a parameter: the body of the request is not looked at
//	func(ctx context.Context) error                           // as OneWay, likewise
//	func(ctx context.Context, body []byte) ([]byte, error)    // as Raw
//
// The tags of Declared are:
//
//   - interface: required
//   - group, version
//   - protocol: names of ports with commas between them
//   - timeout: such as 3s; a number is milliseconds
//   - in-flight: as InFlight
//   - executor: the name of a pool, or the keys of a pool of the service's own, as in
//     executor:"threadpool=fixed threads=10 queues=0 alive=60s"
//
// The tag method of a field is the name of its operation, "-" for none. Declared operations are called by reflection,
// which costs some allocations more than registered ones.
type Declared struct{}

// Declare registers the service that v declares: a struct that embeds Declared, or a pointer to one. pools are the pools
// that the tag executor may name. The error names the field or tag. Declare may be called when Register may.
func (s *Server) Declare(v any, pools map[string]*executor.Pool) error {
	svc, opts, err := declaration(v, pools)
	if err != nil {
		return err
	}
	return s.Register(svc, opts...)
}

var (
	declaredType = reflect.TypeFor[Declared]()
	contextType  = reflect.TypeFor[context.Context]()
	errorType    = reflect.TypeFor[error]()
	bytesType    = reflect.TypeFor[[]byte]()
)

// declaration returns the service that v declares and the options to register it with.
func declaration(v any, pools map[string]*executor.Pool) (*Service, []RegisterOption, error) {
	value := reflect.ValueOf(v)
	of := value
	if of.Kind() == reflect.Pointer && !of.IsNil() {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil, nil, fmt.Errorf("rpc: a service is declared by a struct or a pointer to one, not by a %T", v)
	}
	name := of.Type().String()
	at := slices.IndexFunc(reflect.VisibleFields(of.Type()), func(f reflect.StructField) bool {
		return f.Anonymous && f.Type == declaredType && len(f.Index) == 1
	})
	if at < 0 {
		return nil, nil, fmt.Errorf("rpc: %s embeds no rpc.Declared, whose tags say what the service is", name)
	}
	key, opts, err := declaredTags(name, reflect.VisibleFields(of.Type())[at].Tag, pools)
	if err != nil {
		return nil, nil, err
	}
	methods, err := declaredMethods(name, value, of)
	if err != nil {
		return nil, nil, err
	}
	svc, err := NewService(key, methods...)
	if err != nil {
		return nil, nil, fmt.Errorf("rpc: %s: %w", name, err)
	}
	return svc, opts, nil
}

// declaredTags reads the tags of Declared in the struct of that name.
func declaredTags(name string, tag reflect.StructTag, pools map[string]*executor.Pool) (key Key, opts []RegisterOption, err error) {
	pairs, err := tagPairs(tag)
	if err != nil {
		return key, nil, fmt.Errorf("rpc: %s.Declared: %w", name, err)
	}
	seen := map[string]bool{}
	for _, p := range pairs {
		fail := func(format string, args ...any) (Key, []RegisterOption, error) {
			return key, nil, fmt.Errorf("rpc: %s.Declared: the tag %s:%q %w", name, p.Key, p.Value, fmt.Errorf(format, args...))
		}
		if seen[p.Key] {
			return fail("is there twice")
		}
		seen[p.Key] = true
		switch p.Key {
		case "interface":
			key.Interface = p.Value
		case "group":
			key.Group = p.Value
		case "version":
			key.Version = p.Value
		case "protocol":
			ports := strings.Split(p.Value, ",")
			for i := range ports {
				if ports[i] = strings.TrimSpace(ports[i]); ports[i] == "" {
					return fail("has an empty name")
				}
			}
			opts = append(opts, OnPorts(ports...))
		case "timeout":
			d, err := parseMillis(p.Value)
			if err != nil || d <= 0 {
				return fail("is no duration above 0: write 3s or 500ms; a number is milliseconds")
			}
			opts = append(opts, Timeout(d))
		case "in-flight":
			n, err := strconv.Atoi(p.Value)
			if err != nil || n < 1 {
				return fail("is no number above 0")
			}
			opts = append(opts, InFlight(n))
		case "executor":
			opt, err := declaredExecutor(p.Value, pools)
			if err != nil {
				return fail("%w", err)
			}
			opts = append(opts, opt)
		default:
			return fail("is unknown: want interface, group, version, protocol, timeout, in-flight or executor")
		}
	}
	if err := key.Validate(); err != nil {
		return key, nil, fmt.Errorf("rpc: %s.Declared: the tags interface, group and version: %w", name, err)
	}
	return key, opts, nil
}

// tagPairs splits a tag in the conventional form, key:"value" with spaces between.
func tagPairs(tag reflect.StructTag) ([]Pair, error) {
	var pairs []Pair
	for rest := strings.TrimSpace(string(tag)); rest != ""; rest = strings.TrimSpace(rest) {
		key, after, ok := strings.Cut(rest, ":")
		value, err := strconv.QuotedPrefix(after)
		if !ok || key == "" || strings.ContainsAny(key, " \"") || err != nil {
			return nil, fmt.Errorf("the tags end at %q: they have the form key:\"value\"", rest)
		}
		rest = after[len(value):]
		if value, err = strconv.Unquote(value); err != nil {
			return nil, err
		}
		pairs = append(pairs, Pair{key, value})
	}
	return pairs, nil
}

// parseMillis parses a duration such as 3s, or a number of milliseconds.
func parseMillis(s string) (time.Duration, error) {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return time.Duration(n) * time.Millisecond, nil
	}
	return time.ParseDuration(s)
}

// declaredExecutor returns the option for the tag executor.
func declaredExecutor(value string, pools map[string]*executor.Pool) (RegisterOption, error) {
	if !strings.Contains(value, "=") {
		pool, ok := pools[value]
		if !ok || pool == nil {
			return nil, errors.New("names none of the pools that Declare was given")
		}
		return WithPool(pool), nil
	}
	var o PoolOptions
	for word := range strings.FieldsSeq(value) {
		key, text, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "threadpool":
			o.Kind, err = ParsePoolKind(text)
		case "threads":
			o.Threads, err = positive(text)
		case "corethreads":
			o.CoreThreads, err = positive(text)
		case "queues":
			if o.Queue, err = strconv.Atoi(text); err == nil && o.Queue < 0 {
				err = errors.New("it is below 0: no queue is without a bound")
			}
		case "alive":
			o.KeepAlive, err = parseMillis(text)
			if err == nil && o.KeepAlive <= 0 {
				err = errors.New("it is not above 0")
			}
		default:
			err = errors.New("the keys are threadpool, threads, corethreads, queues and alive")
		}
		if err != nil {
			return nil, fmt.Errorf("is wrong at %s: %w", word, err)
		}
	}
	return WithPoolOptions(o), nil
}

func positive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && n < 1 {
		err = errors.New("it is not above 0")
	}
	return n, err
}

// declaredMethods returns the operations of a struct: its fields first, then its methods.
func declaredMethods(name string, value, of reflect.Value) ([]Method, error) {
	var methods []Method
	for _, f := range reflect.VisibleFields(of.Type()) {
		if !f.IsExported() || f.Type.Kind() != reflect.Func {
			continue
		}
		method := f.Name
		if tag, ok := f.Tag.Lookup("method"); ok {
			if tag == "-" {
				continue
			}
			method = tag
		}
		fn, err := of.FieldByIndexErr(f.Index)
		switch {
		case err != nil:
			return nil, fmt.Errorf("rpc: field %s.%s: %w", name, f.Name, err)
		case fn.IsNil():
			return nil, fmt.Errorf("rpc: field %s.%s is nil: it has no function, and no tag method:\"-\"", name, f.Name)
		}
		m, err := reflectMethod(method, fn)
		if err != nil {
			return nil, fmt.Errorf("rpc: field %s.%s: %w", name, f.Name, err)
		}
		methods = append(methods, m)
	}
	for i := range value.NumMethod() {
		t := value.Type().Method(i)
		fn := value.Method(i)
		if fn.Type().NumIn() == 0 || fn.Type().In(0) != contextType {
			continue
		}
		m, err := reflectMethod(t.Name, fn)
		if err != nil {
			return nil, fmt.Errorf("rpc: method %s.%s: %w", name, t.Name, err)
		}
		methods = append(methods, m)
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("rpc: %s declares no operation: an exported field or method that is a func(context.Context, …)", name)
	}
	return methods, nil
}

var messageType = reflect.TypeFor[proto.Message]()

// reflectMethod returns the Method that Unary, OneWay or Raw would make of a function.
func reflectMethod(name string, fn reflect.Value) (Method, error) {
	t := fn.Type()
	wrong := func() (Method, error) {
		return Method{}, fmt.Errorf("%v is no operation: want func(context.Context, *Req) (*Resp, error) or func(context.Context, *Req) error, either without *Req too, or func(context.Context, []byte) ([]byte, error)", t)
	}
	bare := t.NumIn() == 1
	if t.NumIn() != 2 && !bare || t.IsVariadic() || t.In(0) != contextType || t.NumOut() < 1 || t.NumOut() > 2 || t.Out(t.NumOut()-1) != errorType {
		return wrong()
	}
	if !bare && t.In(1) == bytesType && t.NumOut() == 2 && t.Out(0) == bytesType {
		raw, ok := fn.Convert(reflect.TypeFor[func(context.Context, []byte) ([]byte, error)]()).Interface().(func(context.Context, []byte) ([]byte, error))
		if !ok {
			return wrong()
		}
		return Raw(name, raw), nil
	}
	if !bare && t.In(1).Kind() != reflect.Pointer || t.NumOut() == 2 && t.Out(0).Kind() != reflect.Pointer {
		return wrong()
	}
	m := Method{name: name, oneWay: t.NumOut() == 1, takes: [codecs]bool{true, true, true}}
	if !bare {
		m.takes = codecsOfType(t.In(1))
		m.newReq = func() any { return reflect.New(t.In(1).Elem()).Interface() }
		m.types[0] = payload.TypeName(m.newReq())
	}
	if !m.oneWay {
		m.takes = both(m.takes, codecsOfType(t.Out(0)))
		m.types[1] = payload.TypeName(reflect.New(t.Out(0).Elem()).Interface())
	}
	m.call = func(ctx context.Context, r any) (any, error) {
		in := []reflect.Value{reflect.ValueOf(&ctx).Elem()}
		if !bare {
			v := reflect.ValueOf(r)
			if !v.IsValid() || v.Type() != t.In(1) {
				return nil, fmt.Errorf("%w: %T, want %v", errWrongRequest, r, t.In(1))
			}
			in = append(in, v)
		}
		out := fn.Call(in)
		err, _ := out[len(out)-1].Interface().(error)
		if err != nil || m.oneWay {
			return nil, err
		}
		return out[0].Interface(), nil
	}
	return m, nil
}

// codecsOfType is codecsOf for the type of a pointer.
func codecsOfType(t reflect.Type) [codecs]bool {
	return [codecs]bool{CodecRaw: t.Elem() == bytesType, CodecJSON: true, CodecProtobuf: t.Implements(messageType)}
}
