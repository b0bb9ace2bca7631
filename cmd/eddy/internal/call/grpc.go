package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/rpc"
)

// runGRPC makes the call by gRPC. The types of the messages come from the server's reflection service.
func (f *callFlags) runGRPC(ctx context.Context, t *cli.Terminal, r request) error {
	cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + r.addr}, Timeout: f.timeout})
	if err != nil {
		return err
	}
	defer cl.Close()
	switch {
	case f.list:
		return listGRPC(ctx, t, cl)
	case f.raw:
		out, err := rpc.Invoke[[]byte](ctx, cl, r.key, r.method, r.body, rpc.CallMetadata(r.meta...))
		if err == nil {
			_, err = t.Out.Write(*out)
		}
		return err
	}
	svc, err := rpc.Describe(ctx, cl, r.key.Interface)
	if err != nil {
		return err
	}
	if m := svc.Methods().ByName(protoreflect.Name(r.method)); m != nil {
		return f.stream(ctx, t, cl, r, m)
	}
	// A server of this module has methods whose types are no messages of protobuf. They take JSON by gRPC, too.
	out, err := rpc.Invoke[json.RawMessage](ctx, cl, r.key, r.method, json.RawMessage(r.body), rpc.CallMetadata(r.meta...))
	if err == nil {
		t.Say("%s", *out)
	}
	return err
}

// stream calls a method of any kind: one request, and as many responses as come.
func (f *callFlags) stream(ctx context.Context, t *cli.Terminal, cl *rpc.GRPCClient, r request, m protoreflect.MethodDescriptor) error {
	in := dynamicpb.NewMessage(m.Input())
	if string(r.body) != "null" {
		if err := protojson.Unmarshal(r.body, in); err != nil {
			return &rpc.Error{Service: r.key.String(), Method: r.method, Executed: rpc.ExecutedNo, Err: rpc.ErrBadRequest, Message: fmt.Sprintf("the request is no %s: %v", m.Input().FullName(), err)}
		}
	}
	s, err := rpc.OpenStream(ctx, cl, r.key, r.method, rpc.CallCodec(rpc.CodecProtobuf), rpc.CallTimeout(f.timeout), rpc.CallMetadata(r.meta...))
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Send(proto.Message(in)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	for {
		out := dynamicpb.NewMessage(m.Output())
		switch err := s.Recv(proto.Message(out)); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		b, err := protojson.Marshal(out)
		if err != nil {
			return err
		}
		t.Say("%s", b)
	}
}

// listGRPC prints the services that the server describes, a line for each method.
func listGRPC(ctx context.Context, t *cli.Terminal, cl *rpc.GRPCClient) error {
	services, err := rpc.DescribeAll(ctx, cl)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(t.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVICE\tMETHOD\tREQUEST\tRESPONSE")
	for _, name := range services {
		svc, err := rpc.Describe(ctx, cl, name)
		if err != nil || svc.Methods().Len() == 0 {
			fmt.Fprintf(w, "%s\t-\t-\t-\n", name)
			continue
		}
		for i := range svc.Methods().Len() {
			m := svc.Methods().Get(i)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, m.Name(), typeOf(m.Input(), m.IsStreamingClient()), typeOf(m.Output(), m.IsStreamingServer()))
		}
	}
	return w.Flush()
}

func typeOf(m protoreflect.MessageDescriptor, streams bool) string {
	if streams {
		return "stream " + string(m.FullName())
	}
	return string(m.FullName())
}
