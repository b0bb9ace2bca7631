package rpc

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/internal/testkit"
)

type greeting struct {
	Name  string `json:"name"`
	Times int    `json:"times,omitempty"`
}

// nothingService has methods that return nil, and some without a parameter.
type nothingService struct {
	Declared `interface:"nothing"`
}

func (nothingService) Nil(context.Context, *greeting) (*greeting, error) { return nil, nil }
func (nothingService) NilMessage(context.Context) (*wrapperspb.StringValue, error) {
	return nil, nil
}
func (nothingService) NilBytes(context.Context) (*[]byte, error)                { return nil, nil }
func (nothingService) Name(context.Context) (*greeting, error)                  { return &greeting{Name: "Ann"}, nil }
func (nothingService) Poke(context.Context) error                               { return nil }
func (nothingService) Fail(context.Context) error                               { return errors.New("on purpose") }
func (nothingService) Given(context.Context, *greeting) error                   { return nil }
func (nothingService) GivenBytes(_ context.Context, b *[]byte) (*[]byte, error) { return b, nil }
func (nothingService) Message(context.Context) (*wrapperspb.StringValue, error) {
	return wrapperspb.String("Ann"), nil
}

// TestNilResponse: a method, or an interceptor, that returns neither a response nor an error has made a mistake, and its client is told.
func TestNilResponse(t *testing.T) {
	for name, interceptors := range map[string][]Interceptor{
		"plain": nil,
		"intercepted": {func(ctx context.Context, _ *CallInfo, req any, next func(context.Context, any) (any, error)) (any, error) {
			if v, err := next(ctx, req); err != nil || !isNil(v) {
				return v, err
			}
			return nil, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, ServerOptions{Ports: []PortOptions{{}}, Interceptors: interceptors})
			if err := s.Declare(nothingService{}, nil); err != nil {
				t.Fatal(err)
			}
			serve(t, s, newService(t, "/registered:", Unary("Nil", func(context.Context, *greeting) (*greeting, error) { return nil, nil })))
			cl := client(t, ClientOptions{Codec: CodecJSON}, s.Addr("port0").String())
			ctx, key := testkit.Context(t), Key{Interface: "nothing"}
			_, registered := Invoke[greeting](ctx, cl, Key{Interface: "registered"}, "Nil", &greeting{})
			_, declared := Invoke[greeting](ctx, cl, key, "Nil", &greeting{})
			_, message := Invoke[wrapperspb.StringValue](ctx, cl, key, "NilMessage", nil, CallCodec(CodecProtobuf))
			_, bytes := Invoke[[]byte](ctx, cl, key, "NilBytes", nil, CallCodec(CodecRaw))
			for what, err := range map[string]error{"registered": registered, "declared": declared, "a message": message, "bytes": bytes} {
				if !errors.Is(err, ErrInternal) || !strings.Contains(err.Error(), "the method returned nil and no error") {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// TestNoParameter: methods without a parameter are called in every codec that their response has, with or without a body, and methods with one
// take a request of nil.
func TestNoParameter(t *testing.T) {
	s := newServer(t, ServerOptions{Ports: []PortOptions{{}}})
	if err := s.Declare(nothingService{}, nil); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	cl := client(t, ClientOptions{Codec: CodecJSON}, s.Addr("port0").String())
	ctx, key := testkit.Context(t), Key{Interface: "nothing"}
	for _, req := range []any{nil, &greeting{Name: "somebody"}, []int{1}} {
		if resp, err := Invoke[greeting](ctx, cl, key, "Name", req); err != nil || resp.Name != "Ann" {
			t.Errorf("%v: %v, %v", req, resp, err)
		}
	}
	for _, req := range []any{nil, wrapperspb.Int64(5)} {
		for _, c := range []Codec{CodecJSON, CodecProtobuf} {
			resp, err := Invoke[wrapperspb.StringValue](ctx, cl, key, "Message", req, CallCodec(c))
			if err != nil || resp.Value != "Ann" {
				t.Errorf("%v in %v: %v, %v", req, c, resp, err)
			}
		}
	}
	for _, c := range []Codec{CodecRaw, CodecProtobuf, CodecJSON} {
		if err := Send(ctx, cl, key, "Poke", nil, CallCodec(c)); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, err := Invoke[struct{}](ctx, cl, key, "Poke", nil); err != nil {
		t.Error(err)
	}
	if _, err := Invoke[struct{}](ctx, cl, key, "Fail", nil); !errors.Is(err, ErrApp) {
		t.Error(err)
	}
	if _, err := Invoke[struct{}](ctx, cl, key, "Given", nil); err != nil {
		t.Error(err)
	}
	if resp, err := Invoke[[]byte](ctx, cl, key, "GivenBytes", nil, CallCodec(CodecRaw)); err != nil || len(*resp) != 0 {
		t.Errorf("%q, %v", resp, err)
	}
}

// TestStrict: a field that Resp does not have is an error with Strict only, because a later version of the server may
// send it.
func TestStrict(t *testing.T) {
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			c.answer(q.id, 0, `{"title":"Dr"}`)
		}
	})
	cl := client(t, ClientOptions{Codec: CodecJSON}, s.addr())
	ctx := testkit.Context(t)
	if resp, err := Invoke[greeting](ctx, cl, testKey, "Who", nil); err != nil || *resp != (greeting{}) {
		t.Errorf("%v, %v", resp, err)
	}
	if _, err := Invoke[greeting](ctx, cl, testKey, "Who", nil, Strict()); !errors.Is(err, ErrResponse) || !strings.Contains(err.Error(), `"title"`) {
		t.Errorf("%v", err)
	}
	if _, err := InvokeAsync[greeting](ctx, cl, testKey, "Who", nil, Strict()).Wait(ctx); !errors.Is(err, ErrResponse) {
		t.Errorf("%v", err)
	}
}
