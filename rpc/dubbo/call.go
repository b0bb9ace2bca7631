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
	req, encoding, err := request(cl, operation, args)
	if err != nil {
		return resp, err
	}
	body, err := rpc.Invoke[[]byte](ctx, cl, key, operation, req, append([]rpc.CallOption{encoding}, opts...)...)
	_, plain := cl.(*rpc.Client)
	trailer := rpc.TrailerOf(opts...)
	if err != nil {
		if plain && trailer != nil {
			*trailer = attachedTo(err, Limits{})
		}
		return resp, err
	}
	of := reflect.ValueOf(&resp).Elem()
	if plain {
		err = readAnswer(*body, of, trailer)
	} else {
		err = readResponse(*body, of)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s of %v: %w", rpc.ErrResponse, operation, key, err)
	}
	return resp, err
}

// request returns arguments as a client of that type sends them, and the option that says so.
func request(cl rpc.Caller, operation string, args []any) ([]byte, rpc.CallOption, error) {
	if _, plain := cl.(*rpc.Client); plain {
		b, err := appendArguments(operation, args)
		return b, rpc.CallCodec(rpc.CodecRaw), err
	}
	req := wrapper{serialization: serialization}
	for i, a := range args {
		if err := req.add(a); err != nil {
			return nil, nil, wrongArgument(i, operation, err)
		}
	}
	return req.append(nil), rpc.CallSubtype(serialization), nil
}

// readResponse reads the result of a call by Triple.
func readResponse(body []byte, resp reflect.Value) error {
	w, err := parseWrapper(body)
	if err != nil {
		return err
	}
	if len(w.values) == 0 {
		return errNoValue
	}
	return decode(w.values[0], resp, Limits{})
}

// readAnswer reads the result of a call by frames or, with ClientFront, by the dubbo protocol. The attachments go to trailer, unless it is nil.
func readAnswer(body []byte, resp reflect.Value, trailer *rpc.Metadata) error {
	if len(body) == 0 {
		return nil // null
	}
	value, attached, err := splitAnswer(body, Limits{})
	if err != nil {
		return err
	}
	if _, err := hessian.Check(value, 1, Limits{}); err != nil { // a null may follow
		return err
	}
	if err := newReader(value).read(resp, Limits{}); err != nil {
		return err
	}
	if trailer != nil {
		*trailer = attached
	}
	return nil
}

// Send calls an operation that has no result, one-way: nobody learns whether it was executed. Clients and arguments are those of Invoke,
// errors those of rpc.Send. By Triple the server answers, and rpc.Send says what becomes of the answer.
func Send(ctx context.Context, cl rpc.Caller, key rpc.Key, operation string, args []any, opts ...rpc.CallOption) error {
	req, encoding, err := request(cl, operation, args)
	if err != nil {
		return err
	}
	return rpc.Send(ctx, cl, key, operation, req, append([]rpc.CallOption{encoding}, opts...)...)
}

func wrongArgument(i int, operation string, err error) error {
	return fmt.Errorf("dubbo: argument %d of %s: %w", i+1, operation, err)
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
