package rpc

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/trace"
)

// saysClass is a service whose method says the class of its call, and what its metadata say of it.
func saysClass(t *testing.T, key string) *Service {
	return newService(t, key, Raw("Say", func(ctx context.Context, _ []byte) ([]byte, error) {
		c, known := limit.FromContext(ctx)
		if !known {
			return []byte("none"), nil
		}
		said := c.String()
		for v := range CallFrom(ctx).Metadata.Values(limit.Field) {
			said += " " + v
		}
		return []byte(said), nil
	}))
}

// TestClassTravels: what a method calls for a request matters as much as the request, by every protocol, unless the call says otherwise. What is
// Critical, as everything is of which nothing is said, travels without a word.
func TestClassTravels(t *testing.T) {
	behind := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{TrustClass: true}}}), saysClass(t, "/behind:"))
	framed := client(t, ClientOptions{}, behind.Addr("port0").String())
	byGRPC, err := NewGRPCClient(GRPCOptions{Targets: []string{"http://" + behind.Addr("port0").String()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { byGRPC.Close() })
	relay := func(cl Caller, o ...CallOption) func(context.Context, []byte) ([]byte, error) {
		return func(ctx context.Context, _ []byte) ([]byte, error) {
			b, err := Invoke[[]byte](ctx, cl, Key{Interface: "behind"}, "Say", []byte(nil), o...)
			if err != nil {
				return nil, err
			}
			return *b, nil
		}
	}
	recorder, err := trace.New(trace.Options{Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	front := newServer(t, ServerOptions{Ports: []PortOptions{{Trace: recorder, Protocols: []Protocol{ProtocolFrame, ProtocolGRPC, ProtocolWeb}}}})
	for _, c := range []limit.Class{limit.Sheddable, limit.Critical} {
		svc := newService(t, "/"+c.String()+":", Raw("Frame", relay(framed)), Raw("GRPC", relay(byGRPC)),
			Raw("Own", relay(framed, CallMetadata(Pair{limit.Field, "critical_plus"}))))
		if err := front.Register(svc, Class(c)); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, front)
	base := "http://" + front.Addr("port0").String()
	web := func(key, method string) string {
		r, err := http.NewRequestWithContext(testkit.Context(t), http.MethodPost, base+"/"+key+"/"+method, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/proto")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	callers := map[string]Caller{"frame": client(t, ClientOptions{}, front.Addr("port0").String())}
	viaGRPC, err := NewGRPCClient(GRPCOptions{Targets: []string{base}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { viaGRPC.Close() })
	callers["grpc"] = viaGRPC
	defer http.DefaultClient.CloseIdleConnections()
	for key, want := range map[string]string{"sheddable": "sheddable sheddable", "critical": "critical"} {
		for _, method := range []string{"Frame", "GRPC", "Own"} {
			if method == "Own" {
				want = "critical_plus critical_plus"
			}
			for name, cl := range callers {
				b, err := Invoke[[]byte](testkit.Context(t), cl, Key{Interface: key}, method, []byte(nil))
				if err != nil || string(*b) != want {
					t.Errorf("%s by %s, then %s: %q, %v, want %q", key, name, method, *b, err, want)
				}
			}
			if got := web(key, method); got != want {
				t.Errorf("%s by the web, then %s: %q, want %q", key, method, got, want)
			}
		}
	}
}
