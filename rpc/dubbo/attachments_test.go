package dubbo

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
)

// tagged is a service whose results have attachments.
type tagged struct{ late chan context.Context }

func (s tagged) Value(ctx context.Context, v any) (any, error) {
	err := errors.Join(
		rpc.SetHeader(ctx, rpc.Pair{Key: "a", Value: "old"}),
		rpc.SetTrailer(ctx, rpc.Pair{Key: "a", Value: "1"}, rpc.Pair{Key: "city", Value: "Köln 😀"}),
		rpc.SendHeader(ctx),
	)
	s.late <- ctx
	return v, err
}

func (s tagged) Fail(ctx context.Context) error {
	return errors.Join(rpc.SetTrailer(ctx, rpc.Pair{Key: "a", Value: "1"}), errors.New("oh no"))
}

func serveTagged(t *testing.T) (rpc.Key, *place, chan context.Context) {
	t.Helper()
	k, late := rpc.Key{Interface: "org.example.Tagged"}, make(chan context.Context, 1)
	svc, err := NewService(k, tagged{late}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return k, startWith(t, Limits{}, nil, svc), late
}

// TestAttachments: what a method attaches to its result arrives with it, also with null and by generic calls.
func TestAttachments(t *testing.T) {
	k, p, late := serveTagged(t)
	ctx := testkit.Context(t)
	want := rpc.Metadata{{Key: "a", Value: "1"}, {Key: "city", Value: "Köln 😀"}}
	for name, cl := range map[string]rpc.Caller{"frames": p.frames, "dubbo": p.dubbo} {
		for _, v := range []any{"x", nil, []any{"y", nil}} {
			var got rpc.Metadata
			result, err := Invoke[any](ctx, cl, k, "value", []any{v}, rpc.CallTrailer(&got))
			if err != nil || !reflect.DeepEqual(result, v) || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, %v, %v with %v", name, v, result, err, got)
			}
			if err := rpc.SetTrailer(<-late, rpc.Pair{Key: "k", Value: "v"}); !errors.Is(err, rpc.ErrHeaderSent) {
				t.Errorf("%s: after the end: %v", name, err)
			}
		}
		var got rpc.Metadata
		if v, err := InvokeGeneric[string](ctx, cl, k, "value", nil, []any{"x"}, rpc.CallTrailer(&got)); err != nil || v != "x" || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: a generic call: %q, %v with %v", name, v, err, got)
		}
		<-late
		if v, err := Invoke[string](ctx, cl, k, "value", []any{"x"}); err != nil || v != "x" {
			t.Errorf("%s: a caller who does not ask: %q, %v", name, v, err)
		}
		<-late
		if _, err := Invoke[any](ctx, cl, k, operationEcho, []any{"x"}, rpc.CallTrailer(&got)); err != nil || got != nil {
			t.Errorf("%s: none: %v, %v", name, got, err)
		}
		if _, err := Invoke[any](ctx, cl, k, "fail", nil); !errors.Is(err, rpc.ErrApp) || !strings.Contains(err.Error(), "oh no") {
			t.Errorf("%s: an error: %v", name, err)
		}
	}
}

// TestAttachmentPackets: a client whose version of the protocol reads attachments gets the kinds of answers that have them, and others do not.
func TestAttachmentPackets(t *testing.T) {
	k, p, late := serveTagged(t)
	c := dial(t, p.addr)
	for version, takes := range map[string]bool{
		"2.0.2": true, "2.0.9": true, "2.6.3": true, "2.7.23": true, "2.9.0": true, "3.0.0": true, "3.3": true,
		"2.0.1": false, "2.0.10": false, "2.5.3": false, "2.6.2": false, "2.8.4": false, "": false, "x": false, "3.0.0-beta": false, "2.0.2.1.1": false, "2.0.200": false,
	} {
		for _, v := range []string{short("x"), "N"} {
			body := short(version) + short(k.Interface) + short("") + short("value") + "\x12Ljava/lang/Object;" + v + "HZ"
			if _, err := c.Write(packetOf(0xc2, 0, 9, body)); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"\x01xtrue": "\x94\x01xH\x01a\x011\x04city\x07", "Ntrue": "\x95H\x01a\x011\x04city\x07"}[v+map[bool]string{true: "true"}[takes]]
			got := readPacket(t, c)
			<-late
			switch {
			case takes && !strings.HasPrefix(string(got.body), want), takes && !strings.HasSuffix(string(got.body), "ZN"):
				t.Errorf("version %s: %s, want %q", version, got, want)
			case !takes && (got.body[0] != codeInt+answerException || !strings.Contains(string(got.body), rpc.ErrNoMetadata.Error())):
				t.Errorf("version %s: %s", version, got)
			}
		}
	}
}
