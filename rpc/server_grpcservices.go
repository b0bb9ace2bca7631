package rpc

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
)

// exportGRPCServices adds what every port by gRPC has: the services of health and reflection. They answer
// while the other pools are full.
func (s *Server) exportGRPCServices(g *grpcPort) {
	check := Raw("Check", s.grpcCheck)
	watch := Streaming("Watch", ServerStreams, s.grpcWatch)
	reflect := Streaming("ServerReflectionInfo", BothStream, s.grpcReflect)
	for name, methods := range map[string][]Method{
		grpcwire.HealthService:          {check, watch},
		grpcwire.ReflectionService:      {reflect},
		grpcwire.ReflectionAlphaService: {reflect},
	} {
		r := &registration{svc: &Service{key: Key{Interface: name}, methods: methods}, builtIn: true}
		list := make(map[string]*target, len(methods))
		for i := range methods {
			methods[i].takes = [codecs]bool{CodecProtobuf: true}
			list[methods[i].name] = &target{reg: r, method: &methods[i], pool: s.small}
		}
		g.export(r, list)
	}
}

// health returns the status of a service by its interface or its key, and a channel that is closed when it may change.
// "" is the server. When the server ends, nothing changes any more.
func (s *Server) health(service string) (h grpcwire.Health, changed <-chan struct{}, ending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == serverEnding {
		return grpcwire.NotServing, s.changed, true
	}
	if service == "" {
		return grpcwire.Serving, s.changed, false
	}
	h = grpcwire.ServiceUnknown
	for _, r := range s.registrations {
		if r.svc.key.Interface != service && r.svc.key.String() != service {
			continue
		}
		if r.serving.Load() {
			return grpcwire.Serving, s.changed, false
		}
		h = grpcwire.NotServing
	}
	return h, s.changed, false
}

// healthChanged tells those that watch. s.mu is held.
func (s *Server) healthChanged() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) grpcCheck(_ context.Context, body []byte) ([]byte, error) {
	service, err := grpcwire.ParseHealthRequest(body)
	if err != nil {
		return nil, Statusf(CodeInvalidArgument, "%v", err)
	}
	h, _, _ := s.health(service)
	if h == grpcwire.ServiceUnknown {
		return nil, Statusf(CodeNotFound, "no service %q", service)
	}
	return grpcwire.AppendHealthResponse(nil, h), nil
}

// grpcWatch sends the status of a service, and again whenever it changes.
func (s *Server) grpcWatch(ctx context.Context, stream Stream) error {
	var body []byte
	if err := stream.Recv(&body); err != nil {
		return err
	}
	service, err := grpcwire.ParseHealthRequest(body)
	if err != nil {
		return Statusf(CodeInvalidArgument, "%v", err)
	}
	for last := grpcwire.Health(0); ; {
		h, changed, ending := s.health(service)
		if h != last {
			if err := stream.Send(grpcwire.AppendHealthResponse(nil, h)); err != nil {
				return err
			}
			last = h
		}
		if ending {
			return nil // a stream without an end would keep the drain waiting
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// grpcReflect answers questions about services and types, out of the descriptors that the program has.
func (s *Server) grpcReflect(_ context.Context, stream Stream) error {
	sent := make(map[string]bool) // files that the client has
	for {
		var body []byte
		if err := stream.Recv(&body); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		req, err := grpcwire.ParseReflectionRequest(body)
		if err != nil {
			return Statusf(CodeInvalidArgument, "%v", err)
		}
		if err := stream.Send(s.reflection(req, sent).Append(nil, req)); err != nil {
			return err
		}
	}
}

// reflection answers one question.
func (s *Server) reflection(req *grpcwire.ReflectionRequest, sent map[string]bool) *grpcwire.ReflectionResponse {
	var file protoreflect.FileDescriptor
	var err error
	switch req.Question {
	case grpcwire.ListServices:
		return &grpcwire.ReflectionResponse{Services: s.interfaces()}
	case grpcwire.FileByName:
		if file, err = protoregistry.GlobalFiles.FindFileByPath(req.Text); err != nil {
			file, err = s.madeFile(func(f protoreflect.FileDescriptor) bool { return f.Path() == req.Text })
		}
	case grpcwire.FileBySymbol:
		var d protoreflect.Descriptor
		if d, err = protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(req.Text)); err == nil {
			file = d.ParentFile()
		} else {
			file, err = s.madeFile(func(f protoreflect.FileDescriptor) bool { return hasSymbol(f, protoreflect.FullName(req.Text)) })
		}
	case grpcwire.FileByExtension:
		var x protoreflect.ExtensionType
		if x, err = protoregistry.GlobalTypes.FindExtensionByNumber(protoreflect.FullName(req.Text), protoreflect.FieldNumber(req.Extension)); err == nil {
			file = x.TypeDescriptor().ParentFile()
		}
	case grpcwire.ExtensionsOf:
		if _, err = protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(req.Text)); err == nil {
			return &grpcwire.ReflectionResponse{Base: req.Text, Extensions: extensionsOf(req.Text)}
		}
	default:
		return &grpcwire.ReflectionResponse{Code: uint32(CodeInvalidArgument), Message: "a question that this server does not know"}
	}
	if err != nil {
		return &grpcwire.ReflectionResponse{Code: uint32(CodeNotFound), Message: "not found: " + clip(req.Text)}
	}
	return &grpcwire.ReflectionResponse{Files: appendFile(nil, file, sent)}
}

func extensionsOf(name string) []int32 {
	var list []int32
	protoregistry.GlobalTypes.RangeExtensionsByMessage(protoreflect.FullName(name), func(x protoreflect.ExtensionType) bool {
		list = append(list, int32(x.TypeDescriptor().Number()))
		return true
	})
	slices.Sort(list)
	return list
}

// interfaces returns the names of the services that are served by gRPC.
func (s *Server) interfaces() []string {
	list := []string{grpcwire.HealthService, grpcwire.ReflectionService, grpcwire.ReflectionAlphaService}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.registrations {
		list = append(list, r.svc.key.Interface)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// appendFile appends f and the files that it needs, those first, as far as the client does not have them.
func appendFile(list [][]byte, f protoreflect.FileDescriptor, sent map[string]bool) [][]byte {
	if sent[f.Path()] || f.IsPlaceholder() {
		return list
	}
	sent[f.Path()] = true
	own, err := proto.Marshal(protodesc.ToFileDescriptorProto(f))
	if err != nil {
		return list
	}
	list = append(list, own) // clients expect the file that they asked for at the front
	for i := range f.Imports().Len() {
		list = appendFile(list, f.Imports().Get(i).FileDescriptor, sent)
	}
	return list
}

// madeFile makes a file for each service whose .proto the program does not have, but whose methods take messages that it
// has, and returns the first that fits.
func (s *Server) madeFile(fits func(f protoreflect.FileDescriptor) bool) (protoreflect.FileDescriptor, error) {
	s.mu.Lock()
	services := make([]*Service, 0, len(s.registrations))
	for _, r := range s.registrations {
		services = append(services, r.svc)
	}
	s.mu.Unlock()
	if f, err := protodesc.NewFile(healthFile, nil); err == nil && fits(f) {
		return f, nil
	}
	for _, svc := range services {
		if f, err := protodesc.NewFile(describeService(svc), protoregistry.GlobalFiles); err == nil && fits(f) {
			return f, nil
		}
	}
	return nil, protoregistry.NotFound
}

// healthFile describes the service of health (grpc/health/v1/health.proto).
var healthFile = &descriptorpb.FileDescriptorProto{ //nolint:gochecknoglobals // never written
	Name: proto.String("grpc/health/v1/health.proto"), Package: proto.String("grpc.health.v1"), Syntax: proto.String("proto3"),
	MessageType: []*descriptorpb.DescriptorProto{
		{Name: proto.String("HealthCheckRequest"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("service"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}},
		{Name: proto.String("HealthCheckResponse"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("status"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			TypeName: proto.String(".grpc.health.v1.HealthCheckResponse.ServingStatus"),
		}}, EnumType: []*descriptorpb.EnumDescriptorProto{{Name: proto.String("ServingStatus"), Value: []*descriptorpb.EnumValueDescriptorProto{
			{Name: proto.String("UNKNOWN"), Number: proto.Int32(0)}, {Name: proto.String("SERVING"), Number: proto.Int32(1)},
			{Name: proto.String("NOT_SERVING"), Number: proto.Int32(2)}, {Name: proto.String("SERVICE_UNKNOWN"), Number: proto.Int32(3)},
		}}}},
	},
	Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Health"), Method: []*descriptorpb.MethodDescriptorProto{
		{Name: proto.String("Check"), InputType: proto.String(".grpc.health.v1.HealthCheckRequest"), OutputType: proto.String(".grpc.health.v1.HealthCheckResponse")},
		{Name: proto.String("Watch"), InputType: proto.String(".grpc.health.v1.HealthCheckRequest"), OutputType: proto.String(".grpc.health.v1.HealthCheckResponse"), ServerStreaming: proto.Bool(true)},
	}}},
}

func hasSymbol(f protoreflect.FileDescriptor, name protoreflect.FullName) bool {
	for i := range f.Services().Len() {
		svc := f.Services().Get(i)
		if svc.FullName() == name || svc.FullName() == name.Parent() && svc.Methods().ByName(name.Name()) != nil {
			return true
		}
	}
	return false
}

// describeService returns a file that describes the methods of a service whose types are messages.
func describeService(svc *Service) *descriptorpb.FileDescriptorProto {
	full := protoreflect.FullName(svc.key.Interface)
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("eddy/" + svc.key.Interface + ".proto"), Package: proto.String(string(full.Parent())), Syntax: proto.String("proto3"),
	}
	def := &descriptorpb.ServiceDescriptorProto{Name: proto.String(string(full.Name()))}
	for _, m := range svc.methods {
		var types [2]string
		for i, name := range m.types {
			d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
			if err != nil {
				break
			}
			types[i] = "." + name
			if path := d.ParentFile().Path(); !slices.Contains(file.Dependency, path) {
				file.Dependency = append(file.Dependency, path)
			}
		}
		if types[0] == "" || types[1] == "" {
			continue
		}
		def.Method = append(def.Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(m.name), InputType: proto.String(types[0]), OutputType: proto.String(types[1]),
			ServerStreaming: proto.Bool(m.kind&ServerStreams != 0), ClientStreaming: proto.Bool(m.kind&ClientStreams != 0),
		})
	}
	file.Service = []*descriptorpb.ServiceDescriptorProto{def}
	return file
}
