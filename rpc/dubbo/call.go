package dubbo

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	hessian2 "github.com/apache/dubbo-go-hessian2"

	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/dubbo/internal/hessian"
)

// add adds a value.
func (w *wrapper) add(v any) error {
	v, kind := argument(v)
	b, err := encode(v)
	if err != nil {
		return err
	}
	w.values, w.types = append(w.values, b), append(w.types, kind)
	return nil
}

// argument returns a value as it is encoded, and Java's name of its type.
func argument(v any) (value any, kind string) {
	if a, ok := v.(Arg); ok {
		v, kind = a.Value, a.Type
	}
	if kind == "" {
		kind = javaType(v)
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
		v = nil
	}
	return v, kind
}

// Invoke calls an operation of a service that has no .proto file, and returns its result. Arguments are values whose types
// Java names alike, structs of RegisterClass, lists and maps of them; see Arg for the others. Resp is any for operations
// without a result. With an *rpc.GRPCClient the call goes by Triple, with an *rpc.Client by the frame protocol or, if it has a
// ClientFront, by the dubbo protocol. rpc.CallTrailer takes the attachments of the result or the exception: those that are strings.
//
// Errors are those of rpc.Invoke. A result that is no Resp, or beyond the default Limits, is rpc.ErrResponse. The content type says hessian2;
// rpc.CallSubtype("proto") is for servers that do not know that word.
func Invoke[Resp any](ctx context.Context, cl rpc.Caller, key rpc.Key, operation string, args []any, opts ...rpc.CallOption) (Resp, error) {
	var resp Resp
	if _, plain := cl.(*rpc.Client); plain {
		return resp, invokePlain(ctx, cl, key, operation, args, opts, reflect.ValueOf(&resp).Elem())
	}
	req := wrapper{serialization: serialization}
	for i, a := range args {
		if err := req.add(a); err != nil {
			return resp, wrongArgument(i, operation, err)
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
	return resp, wrongResult(err, key, operation)
}

// invokePlain is Invoke by frames or, with ClientFront, by the dubbo protocol.
func invokePlain(ctx context.Context, cl rpc.Caller, key rpc.Key, operation string, args []any, opts []rpc.CallOption, resp reflect.Value) error {
	req, err := appendArguments(operation, args)
	if err != nil {
		return err
	}
	trailer := rpc.TrailerOf(opts...)
	body, err := rpc.Invoke[[]byte](ctx, cl, key, operation, req, append([]rpc.CallOption{rpc.CallCodec(rpc.CodecRaw)}, opts...)...)
	if err != nil {
		if trailer != nil {
			*trailer = attachedTo(err, Limits{})
		}
		return err
	}
	if len(*body) == 0 {
		return nil // null
	}
	value, attached, err := splitAnswer(*body, Limits{})
	if err == nil {
		_, err = hessian.Check(value, 1, Limits{}) // a null may follow
	}
	if err == nil {
		err = newReader(value).read(resp, Limits{})
	}
	if trailer != nil && err == nil {
		*trailer = attached
	}
	return wrongResult(err, key, operation)
}

// Send calls an operation that has no result, one-way: nobody learns whether it was executed. Arguments are those of Invoke,
// errors those of rpc.Send.
func Send(ctx context.Context, cl *rpc.Client, key rpc.Key, operation string, args []any, opts ...rpc.CallOption) error {
	req, err := appendArguments(operation, args)
	if err != nil {
		return err
	}
	return rpc.Send(ctx, cl, key, operation, req, append([]rpc.CallOption{rpc.CallCodec(rpc.CodecRaw)}, opts...)...)
}

func wrongArgument(i int, operation string, err error) error {
	return fmt.Errorf("dubbo: argument %d of %s: %w", i+1, operation, err)
}

func wrongResult(err error, key rpc.Key, operation string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s of %v: %w", rpc.ErrResponse, operation, key, err)
}

// appendArguments returns arguments as the dubbo protocol sends them, behind callMark.
func appendArguments(operation string, args []any) ([]byte, error) {
	if len(args) > maxValues {
		return nil, fmt.Errorf("dubbo: %d arguments of %s, limit %d", len(args), operation, maxValues)
	}
	var types strings.Builder
	values := make([]any, len(args))
	for i, a := range args {
		v, kind := argument(a)
		values[i] = v
		types.WriteString(descriptor(kind))
	}
	e := hessian2.NewEncoder()
	if err := encodeTo(e, types.String()); err != nil {
		return nil, err
	}
	for i, v := range values {
		if err := encodeTo(e, v); err != nil {
			return nil, wrongArgument(i, operation, err)
		}
	}
	return append([]byte{callMark}, e.Buffer()...), nil
}

// descriptor returns the name of a type as the classes of Java have it.
func descriptor(name string) string {
	if letter, ok := letters[name]; ok {
		return letter
	}
	name = strings.ReplaceAll(name, ".", "/")
	if strings.HasPrefix(name, "[") {
		return name
	}
	return "L" + name + ";"
}

var letters = map[string]string{"boolean": "Z", "byte": "B", "char": "C", "short": "S", "int": "I", "long": "J", "float": "F", "double": "D"}
