package rpc

import (
	"context"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"
)

var messageType = reflect.TypeFor[proto.Message]()

// reflectMethod makes of a function what Unary, OneWay or Raw would.
func reflectMethod(name string, fn reflect.Value) (Method, error) {
	t := fn.Type()
	wrong := func() (Method, error) {
		return Method{}, fmt.Errorf("%v is no operation: want func(context.Context, *Req) (*Resp, error), func(context.Context, *Req) error or func(context.Context, []byte) ([]byte, error)", t)
	}
	if t.NumIn() != 2 || t.IsVariadic() || t.In(0) != contextType || t.NumOut() < 1 || t.NumOut() > 2 || t.Out(t.NumOut()-1) != errorType {
		return wrong()
	}
	if t.In(1) == bytesType && t.NumOut() == 2 && t.Out(0) == bytesType {
		raw, ok := fn.Convert(reflect.TypeFor[func(context.Context, []byte) ([]byte, error)]()).Interface().(func(context.Context, []byte) ([]byte, error))
		if !ok {
			return wrong()
		}
		return Raw(name, raw), nil
	}
	if t.In(1).Kind() != reflect.Pointer || t.NumOut() == 2 && t.Out(0).Kind() != reflect.Pointer {
		return wrong()
	}
	m := Method{name: name, oneWay: t.NumOut() == 1, takes: codecsOfType(t.In(1))}
	if t.NumOut() == 2 {
		m.takes = both(m.takes, codecsOfType(t.Out(0)))
	}
	req := t.In(1).Elem()
	m.newReq = func() any { return reflect.New(req).Interface() }
	m.call = func(ctx context.Context, r any) (any, error) {
		in := reflect.ValueOf(r)
		if !in.IsValid() || in.Type() != t.In(1) {
			return nil, fmt.Errorf("%w: %T, want %v", errWrongRequest, r, t.In(1))
		}
		out := fn.Call([]reflect.Value{reflect.ValueOf(&ctx).Elem(), in})
		if err, _ := out[len(out)-1].Interface().(error); err != nil || len(out) == 1 {
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
