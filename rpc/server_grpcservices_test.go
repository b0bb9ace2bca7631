package rpc

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/go-eddy/eddy/internal/testkit"
)

// TestGRPCHealth: Check and Watch tell what SetServing, Register and the end of the server change.
func TestGRPCHealth(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), greeter(t, "g/test:1"))
	p := dialGRPC(t, s.Addr("port0"))
	ask := func(service string) string {
		a := p.call("/grpc.health.v1.Health/Check", []string{"\x0a" + string(rune(len(service))) + service}, "Content-Type", "application/grpc")
		return a.status + " " + strings.Join(a.msgs, "")
	}
	const serving, notServing, unknown = "\x08\x01", "\x08\x02", "\x08\x03"
	for service, want := range map[string]string{"": "0 " + serving, "test": "0 " + serving, "g/test:1": "0 " + serving, "other": `5 no service "other" `} {
		if got := ask(service); got != want {
			t.Errorf("%q: %q, want %q", service, got, want)
		}
	}
	watch := func(service string) (next func() string) {
		resp, err := p.http.Do(p.request(context.Background(), "/grpc.health.v1.Health/Watch", bytes.NewReader(grpcMessage(0, "\x0a"+string(rune(len(service)))+service)), "Content-Type", "application/grpc"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return func() string {
			msg, err := readGRPC(resp.Body)
			if err == io.EOF {
				return "end " + grpcStatus(resp.Trailer)
			}
			if err != nil {
				t.Fatal(err)
			}
			return msg
		}
	}
	known, later, all := watch("test"), watch("later"), watch("")
	for what, got := range map[string]string{"known": known(), "all": all()} {
		if got != serving {
			t.Errorf("%s: %q", what, got)
		}
	}
	if got := later(); got != unknown {
		t.Errorf("%q", got)
	}
	if err := s.SetServing(Key{"g", "test", "1"}, false); err != nil {
		t.Fatal(err)
	}
	if got := known(); got != notServing {
		t.Errorf("%q", got)
	}
	if err := s.Register(greeter(t, "/later:")); err != nil {
		t.Fatal(err)
	}
	if got := later(); got != serving {
		t.Errorf("%q", got)
	}
	if _, err := s.Shutdown(testkit.Context(t)); err != nil { // watchers do not hold it
		t.Error(err)
	}
	for what, next := range map[string]func() string{"later": later, "all": all} {
		if got := next(); got != notServing {
			t.Errorf("%s: %q", what, got)
		}
		if got := next(); got != "end 0" {
			t.Errorf("%s: %q", what, got)
		}
	}
	if got := known(); got != "end 0" {
		t.Errorf("%q", got)
	}
}

// TestGRPCReflection: services, files of the program, and files that are made of services whose .proto nobody has.
func TestGRPCReflection(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), greeter(t, "/test.Greeter:"), streams(t))
	p := dialGRPC(t, s.Addr("port0"))
	question := func(num protowire.Number, text string) string {
		return string(protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), text))
	}
	extension := protowire.AppendVarint(append([]byte(question(1, "google.protobuf.FieldOptions")), 0x10), 1)
	for _, version := range []string{"v1", "v1alpha"} {
		a := p.call("/grpc.reflection."+version+".ServerReflection/ServerReflectionInfo", []string{
			question(7, "*"), question(4, "google.protobuf.StringValue"), question(4, "test.Greeter"), question(4, "test.Greeter.Proto"),
			question(3, "google/protobuf/duration.proto"), question(3, "eddy/test.Greeter.proto"), question(4, "test.Nobody"), question(6, "google.protobuf.FieldOptions"),
			question(6, "no.Type"), question(5, string(extension)), question(9, ""),
		}, "Content-Type", "application/grpc")
		if a.status != "0" || len(a.msgs) != 11 {
			t.Fatalf("%s, %d answers", a.status, len(a.msgs))
		}
		list := strings.Join(strings.FieldsFunc(strings.ReplaceAll(a.msgs[0], "grpc.", "\x00grpc."), func(r rune) bool { return r < ' ' }), " ")
		for _, name := range []string{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "test.Greeter", "test.Streams"} {
			if !strings.Contains(list, name) {
				t.Errorf("%s is not in %q", name, list)
			}
		}
		for i, want := range map[int]string{1: "google/protobuf/wrappers.proto", 4: "google/protobuf/duration.proto"} {
			if files := filesOf(t, a.msgs[i]); len(files) != 0 && files[0].GetName() != want {
				t.Errorf("answer %d is about %v", i, files[0].GetName())
			}
		}
		files := filesOf(t, a.msgs[3])
		if len(files) != 1 || files[0].GetName() != "eddy/test.Greeter.proto" { // the one that it needs was sent before
			if len(files) != 0 {
				t.Fatalf("%v", files)
			}
		}
		made := filesOf(t, a.msgs[2])
		if len(made) == 0 || made[0].GetService()[0].GetName() != "Greeter" || made[0].GetService()[0].GetMethod()[0].GetInputType() != ".google.protobuf.StringValue" {
			t.Errorf("%v", made)
		}
		for _, i := range []int{6, 8, 9} {
			if !strings.Contains(a.msgs[i], "not found") {
				t.Errorf("answer %d: %q", i, a.msgs[i])
			}
		}
		if !strings.Contains(a.msgs[10], "does not know") {
			t.Errorf("%q", a.msgs[10])
		}
	}
}

// filesOf returns the files of a ServerReflectionResponse.
func filesOf(t *testing.T, msg string) (files []*descriptorpb.FileDescriptorProto) {
	t.Helper()
	for b := []byte(msg); len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		b = b[n:]
		if typ != protowire.BytesType {
			b = b[protowire.ConsumeFieldValue(num, typ, b):]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		b = b[n:]
		for num == 4 && len(v) > 0 {
			_, _, n := protowire.ConsumeTag(v)
			file, m := protowire.ConsumeBytes(v[n:])
			v = v[n+m:]
			f := new(descriptorpb.FileDescriptorProto)
			if err := proto.Unmarshal(file, f); err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
	}
	return files
}

// TestGRPCDrain: a server that ends lets calls finish, and refuses new ones so that they can be made elsewhere.
func TestGRPCDrain(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	svc := newService(t, "/test:", Raw("Hold", func(context.Context, []byte) ([]byte, error) {
		entered <- struct{}{}
		<-release
		return []byte("done"), nil
	}))
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), svc)
	p := dialGRPC(t, s.Addr("port0"))
	held := make(chan grpcAnswer, 1)
	go func() { held <- p.call("/test/Hold", []string{""}) }()
	testkit.Receive(t, "the call", entered)
	ended := make(chan error, 1)
	go func() { _, err := s.Shutdown(testkit.Context(t)); ended <- err }()
	testkit.Eventually(t, "new connections to be refused", func() bool {
		other := dialGRPC(t, s.Addr("port0"))
		resp, err := other.http.Do(other.request(context.Background(), "/test/Hold", http.NoBody))
		if err == nil {
			resp.Body.Close()
		}
		return err != nil
	})
	close(release)
	if a := testkit.Receive(t, "the answer", held); a.status != "0" || a.msgs[0] != "done" {
		t.Errorf("%q %q", a.status, a.msgs)
	}
	if err := testkit.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
}
