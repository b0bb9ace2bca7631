// Package grpcgo registers services that were written for grpc-go with an rpc.Server. The generated code, the methods and
// their errors stay as they are; only the lines that make the server and register with it change:
//
//	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Addr: ":50051"}}})
//	pb.RegisterGreeterServer(grpcgo.On(srv), &greeter{})
//	err = srv.Listen()
//
// In a method, package metadata has the incoming metadata, grpc.SetHeader, SendHeader and SetTrailer work, and so do
// package peer and errors of package status. The package is a module of its own, so that programs without grpc-go do not
// have it in their graph.
package grpcgo

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/go-eddy/eddy/rpc"
)

// Registrar is a grpc.ServiceRegistrar that registers with an rpc.Server. Set the interceptors before the first service.
type Registrar struct {
	Unary  grpc.UnaryServerInterceptor  // around each unary method, nil = none
	Stream grpc.StreamServerInterceptor // around each method that streams, nil = none

	srv     *rpc.Server
	options []rpc.RegisterOption
}

// On returns a Registrar that registers services with srv, each with these options.
func On(srv *rpc.Server, options ...rpc.RegisterOption) *Registrar {
	return &Registrar{srv: srv, options: options}
}

// RegisterService implements grpc.ServiceRegistrar. It panics with what Service or rpc.Server.Register has returned, as a
// service that is not served is a mistake of the program; grpc-go ends the process.
func (r *Registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	svc, err := r.Service(desc, impl)
	if err == nil {
		err = r.srv.Register(svc, r.options...)
	}
	if err != nil {
		panic(err)
	}
}

// Service returns the service that desc describes, for rpc.Server.Register. The error says that impl is no implementation
// of it, or what is wrong with its name or its methods.
func (r *Registrar) Service(desc *grpc.ServiceDesc, impl any) (*rpc.Service, error) {
	if want := reflect.TypeOf(desc.HandlerType).Elem(); impl == nil || !reflect.TypeOf(impl).Implements(want) {
		return nil, fmt.Errorf("grpcgo: service %s: %T does not implement %v", desc.ServiceName, impl, want)
	}
	methods := make([]rpc.Method, 0, len(desc.Methods)+len(desc.Streams))
	for _, m := range desc.Methods {
		methods = append(methods, rpc.Decoding(m.MethodName, func(ctx context.Context, decode func(msg any) error) (any, error) {
			return m.Handler(impl, withCall(ctx, "/"+desc.ServiceName+"/"+m.MethodName), decode, r.Unary)
		}))
	}
	for _, s := range desc.Streams {
		info := &grpc.StreamServerInfo{FullMethod: "/" + desc.ServiceName + "/" + s.StreamName, IsClientStream: s.ClientStreams, IsServerStream: s.ServerStreams}
		methods = append(methods, rpc.Streaming(s.StreamName, kindOf(s), func(ctx context.Context, st rpc.Stream) error {
			ss := &stream{Stream: st, ctx: withCall(ctx, info.FullMethod)}
			if r.Stream != nil {
				return r.Stream(impl, ss, info, s.Handler)
			}
			return s.Handler(impl, ss)
		}))
	}
	return rpc.NewService(rpc.Key{Interface: desc.ServiceName}, methods...)
}

func kindOf(s grpc.StreamDesc) (k rpc.StreamKind) {
	if s.ServerStreams {
		k |= rpc.ServerStreams
	}
	if s.ClientStreams {
		k |= rpc.ClientStreams
	}
	return k
}

// withCall returns the context that a method of grpc-go expects.
func withCall(ctx context.Context, method string) context.Context {
	if call := rpc.CallFrom(ctx); call != nil {
		md := make(metadata.MD, len(call.Metadata))
		for _, p := range call.Metadata {
			key := strings.ToLower(p.Key)
			md[key] = append(md[key], p.Value)
		}
		ctx = metadata.NewIncomingContext(ctx, md)
		ctx = peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(call.Peer)})
	}
	t := &transport{method: method}
	t.ctx = grpc.NewContextWithServerTransportStream(ctx, t)
	return t.ctx
}

// transport is what grpc.SetHeader and its like find in a method's context.
type transport struct {
	method string
	ctx    context.Context
}

// Method implements grpc.ServerTransportStream.
func (t *transport) Method() string { return t.method }

// SetHeader implements grpc.ServerTransportStream.
func (t *transport) SetHeader(md metadata.MD) error { return rpc.SetHeader(t.ctx, pairs(md)...) }

// SendHeader implements grpc.ServerTransportStream.
func (t *transport) SendHeader(md metadata.MD) error { return rpc.SendHeader(t.ctx, pairs(md)...) }

// SetTrailer implements grpc.ServerTransportStream.
func (t *transport) SetTrailer(md metadata.MD) error { return rpc.SetTrailer(t.ctx, pairs(md)...) }

func pairs(md metadata.MD) []rpc.Pair {
	var list []rpc.Pair
	for key, values := range md {
		for _, v := range values {
			list = append(list, rpc.Pair{Key: key, Value: v})
		}
	}
	return list
}

// stream is a grpc.ServerStream.
type stream struct {
	rpc.Stream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// SetHeader implements grpc.ServerStream.
func (s *stream) SetHeader(md metadata.MD) error { return rpc.SetHeader(s.ctx, pairs(md)...) }

// SendHeader implements grpc.ServerStream.
func (s *stream) SendHeader(md metadata.MD) error { return rpc.SendHeader(s.ctx, pairs(md)...) }

// SetTrailer implements grpc.ServerStream.
func (s *stream) SetTrailer(md metadata.MD) { _ = rpc.SetTrailer(s.ctx, pairs(md)...) }

// SendMsg implements grpc.ServerStream.
func (s *stream) SendMsg(m any) error { return s.Send(m) }

// RecvMsg implements grpc.ServerStream.
func (s *stream) RecvMsg(m any) error { return s.Recv(m) }
