package rpc

import (
	"context"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/go-eddy/eddy/rpc/internal/payload"
)

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
