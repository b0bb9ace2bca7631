package rpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
)

// DescribeAll returns the names of the services that a server has, by its reflection service (v1, else v1alpha). Errors are
// those of Invoke; a server without reflection is ErrNotFound.
func DescribeAll(ctx context.Context, cl *GRPCClient) ([]string, error) {
	r, err := cl.ask(ctx, func(ask func(grpcwire.Question, string) (*grpcwire.ReflectionResponse, error)) (*grpcwire.ReflectionResponse, error) {
		return ask(grpcwire.ListServices, "*")
	})
	if err != nil {
		return nil, err
	}
	return r.Services, nil
}

// Describe returns the description of a service, by the reflection service of its server: its methods, and the messages
// that they take. Errors are those of Invoke; a service that the server does not know is ErrNotFound.
func Describe(ctx context.Context, cl *GRPCClient, service string) (protoreflect.ServiceDescriptor, error) {
	all := new(descriptorpb.FileDescriptorSet)
	have := make(map[string]bool)
	_, err := cl.ask(ctx, func(ask func(grpcwire.Question, string) (*grpcwire.ReflectionResponse, error)) (*grpcwire.ReflectionResponse, error) {
		r, err := ask(grpcwire.FileBySymbol, service)
		for err == nil {
			missing := collect(all, have, r)
			if missing == "" {
				return r, nil
			}
			r, err = ask(grpcwire.FileByName, missing)
		}
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	files, err := protodesc.FileOptions{AllowUnresolvable: true}.NewFiles(all)
	if err != nil {
		return nil, fmt.Errorf("rpc: the description of service %s: %w", service, err)
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, fmt.Errorf("rpc: the description of service %s: %w", service, err)
	}
	svc, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("rpc: %s is no service: %w", service, ErrNotFound)
	}
	return svc, nil
}

// collect adds the files of an answer, and returns the name of one that they need and that is not there, "" for none.
func collect(all *descriptorpb.FileDescriptorSet, have map[string]bool, r *grpcwire.ReflectionResponse) string {
	for _, b := range r.Files {
		f := new(descriptorpb.FileDescriptorProto)
		if proto.Unmarshal(b, f) == nil && !have[f.GetName()] {
			have[f.GetName()] = true
			all.File = append(all.File, f)
		}
	}
	for _, f := range all.File {
		for _, needed := range f.Dependency {
			if !have[needed] {
				have[needed] = true // asked for once
				return needed
			}
		}
	}
	return ""
}

// ask opens a stream to the reflection service, and lets f ask questions.
func (cl *GRPCClient) ask(ctx context.Context, f func(ask func(grpcwire.Question, string) (*grpcwire.ReflectionResponse, error)) (*grpcwire.ReflectionResponse, error)) (*grpcwire.ReflectionResponse, error) {
	var last error
	for _, service := range []string{grpcwire.ReflectionService, grpcwire.ReflectionAlphaService} {
		s, err := OpenStream(ctx, cl, Key{Interface: service}, "ServerReflectionInfo", CallCodec(CodecRaw), CallTimeout(cl.o.Timeout))
		if err != nil {
			return nil, err
		}
		r, err := f(func(q grpcwire.Question, text string) (*grpcwire.ReflectionResponse, error) {
			_ = s.Send(grpcwire.AppendQuestion(nil, q, text)) // Recv tells why it failed
			var b []byte
			if err := s.Recv(&b); err != nil {
				return nil, err
			}
			r, err := grpcwire.ParseReflectionResponse(b)
			if err == nil && r.Code != 0 {
				return nil, &Error{Service: "/" + text + ":", Status: statusOfCode(Code(r.Code)), Message: r.Message, Err: fmt.Errorf("%w: %w", ErrNotFound, &Status{Code: Code(r.Code), Message: r.Message})}
			}
			return r, err
		})
		s.Close()
		if st, ok := errors.AsType[*Status](err); err == nil || !ok || st.Code != CodeUnimplemented {
			return r, err
		}
		last = err
	}
	return nil, last
}
