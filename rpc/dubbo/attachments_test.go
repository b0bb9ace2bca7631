package dubbo

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/codec/frame"
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

// TestAttachments: what a method attaches to its result or its error arrives with it, also with null and by generic calls.
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
		for _, call := range []func() error{
			func() error { _, err := Invoke[any](ctx, cl, k, "fail", nil, rpc.CallTrailer(&got)); return err },
			func() error {
				_, err := InvokeGeneric[any](ctx, cl, k, "fail", nil, nil, rpc.CallTrailer(&got))
				return err
			},
		} {
			got = nil
			if err := call(); !errors.Is(err, rpc.ErrApp) || !strings.HasSuffix(err.Error(), "oh no") || !reflect.DeepEqual(got, rpc.Metadata{{Key: "a", Value: "1"}}) {
				t.Errorf("%s: an error: %v with %v", name, err, got)
			}
		}
		if _, err := Invoke[any](ctx, cl, k, "fail", []any{1}, rpc.CallTrailer(&got)); err == nil || got != nil {
			t.Errorf("%s: an error without attachments: %v with %v", name, err, got)
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
		if _, err := c.Write(packetOf(0xc2, 0, 9, short(version)+short(k.Interface)+short("")+short("fail")+"\x00HZ")); err != nil {
			t.Fatal(err)
		}
		want, end := byte(codeInt+answerException), "N"
		if takes {
			want, end = want+attached, "H\x01a\x011ZN"
		}
		if got := readPacket(t, c); got.body[0] != want || !strings.HasPrefix(string(got.body[1:]), "C\x1ajava.lang.RuntimeException") || !strings.HasSuffix(string(got.body), end) {
			t.Errorf("an error in version %s: %s", version, got)
		}
	}
}

// TestThrownPackets: of an exception with attachments a client is told both, whatever stands before the text and between the two, and whatever the attachments are.
func TestThrownPackets(t *testing.T) {
	h := &clientFront{Options{}.withDefaults()}
	const four = "C\x11com.example.Error\x94\x05cause\x0astackTrace\x14suppressedExceptions\x0ddetailMessage\x60"
	const generic = "rpc.service.GenericException\x93\x0ddetailMessage\x0eexceptionClass\x10exceptionMessage\x60"
	list := "\x72\x1c[java.lang.StackTraceElement" + "C\x1bjava.lang.StackTraceElement\x91\x04file\x61N\x61N"
	for name, c := range map[string]struct{ body, text, attached string }{
		"plain":                         {"\x93" + four + "NNN\x02noH\x01a\x01bZN", "com.example.Error: no", "a=b "},
		"of itself, with a stack":       {"\x93" + four + "\x51\x90" + list + "\x70\x90\x02noH\x01a\x01bZ", "com.example.Error: no", "a=b "},
		"by another":                    {"\x93" + four + "\x60NNN\x01xM\x90\x01yNZN\x02noH\x01a\x01bZ", "com.example.Error: no", "a=b "},
		"by one of no registered class": {"\x93" + four + "C\x01x\x94\x05cause\x0astackTrace\x0ddetailMessage\x14suppressedExceptions\x61NNNNNN\x02noH\x01a\x01bZ", "com.example.Error: no", "a=b "},
		"with a class of other fields":  {"\x93" + four + "C\x10org.example.User\x91\x04tags\x61\x90NN\x02noH\x01a\x01bZ", "com.example.Error: no", "a=b "},
		"with a list of no known type":  {"\x93" + four + "\x70\x99NN\x02noH\x01a\x01bZ", "com.example.Error: no", "a=b "},
		"of other values":               {"\x93" + four + "NNN\x02noH\x01a\x90\x01b\x01cZ", "com.example.Error: no", "b=c "},
		"with none":                     {"\x93" + four + "NNN\x02noHZN", "com.example.Error: no", ""},
		"that are no map":               {"\x93" + four + "NNN\x02no\x01xN", "com.example.Error: no", ""},
		"that are missing":              {"\x93" + four + "NNN\x02no", "com.example.Error: no", ""},
		"not said to be there":          {"\x90" + four + "NNN\x02noH\x01a\x01bZ", "com.example.Error: no", ""},
		"behind what is no value":       {"\x93" + four + "NN\xff\x02noH\x01a\x01bZ", "com.example.Error: ", ""},
		"a GenericException":            {"\x93C\x30\x2dorg.apache.dubbo." + generic + "\x01x\x03a.B\x02noH\x01a\x01bZ", "a.B: no", "a=b "},
		"a GenericException before 2.7": {"\x90C\x30\x2ecom.alibaba.dubbo." + generic + "\x01x\x03a.B\x02noN", "a.B: no", ""},
		"a GenericException of nothing": {"\x90C\x30\x2dorg.apache.dubbo." + generic + "\x01xNNN", "org.apache.dubbo.rpc.service.GenericException: x", ""},
		"another with its fields":       {"\x90C\x30\x2dorg.example.dubbo" + generic + "\x01x\x03a.B\x02noN", "org.example.dubborpc.service.GenericException: x", ""},
	} {
		b := h.response(packet{status: statusOK, body: []byte(c.body)})
		f := frame.Frame{Code: b[11], Payload: b[frame.HeaderSize:]}
		e, ok := errors.AsType[*frame.StatusError](f.Err())
		if !ok || e.Status != frame.StatusAppError || e.Message != c.text {
			t.Errorf("%s: %v, want %q", name, f.Err(), c.text)
			continue
		}
		got := ""
		for _, p := range attachedTo(&rpc.Error{Details: e.Details}, Limits{}) {
			got += p.Key + "=" + p.Value + " "
		}
		if got != c.attached {
			t.Errorf("%s: the attachments %q, want %q", name, got, c.attached)
		}
	}
}
