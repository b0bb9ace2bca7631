package main

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/descriptorpb"
)

// service writes the code of one service.
type service struct {
	*writer
	*protogen.Service
	names      goNames
	full       string // the name in the .proto
	deprecated string // why the service is deprecated, "" if it is not
}

// goNames are the Go names of what is generated for a service.
type goNames struct {
	server, unimplemented, unsafe, newService, register string
	client, clientType, newClient, newClientFor         string
	serviceName                                         string
}

func namesOf(s *protogen.Service) goNames {
	n := s.GoName
	return goNames{
		server: n + "Server", unimplemented: "Unimplemented" + n + "Server", unsafe: "Unsafe" + n + "Server",
		newService: "New" + n + "Service", register: "Register" + n + "Server",
		client: n + "Client", clientType: unexported(n) + "Client", newClient: "New" + n + "Client", newClientFor: "New" + n + "ClientFor",
		serviceName: n + "_ServiceName",
	}
}

// list returns the names that the Go package must not have otherwise.
func (n goNames) list() []string {
	return []string{n.server, n.unimplemented, n.unsafe, n.newService, n.register, n.client, n.clientType, n.newClient, n.newClientFor, n.serviceName}
}

// methodConstant returns the name of the constant with the method's full name.
func methodConstant(s *protogen.Service, m *protogen.Method) string {
	return s.GoName + "_" + m.GoName + "_FullMethodName"
}

// unexported returns a Go name with a small first letter. Names of .proto files have ASCII letters only.
func unexported(name string) string {
	b := []byte(name)
	if 'A' <= b[0] && b[0] <= 'Z' {
		b[0] += 'a' - 'A'
	}
	return string(b)
}

func (w *writer) newService(s *protogen.Service) *service {
	svc := &service{writer: w, Service: s, names: namesOf(s), full: string(s.Desc.FullName())}
	svc.names.clientType = w.local(svc.names.clientType)
	if s.Desc.Options().(*descriptorpb.ServiceOptions).GetDeprecated() {
		svc.deprecated = svc.full + " is deprecated in its .proto file."
	}
	return svc
}

// deprecation returns why a method is deprecated, "" if it is not.
func deprecation(m *protogen.Method) string {
	if m.Desc.Options().(*descriptorpb.MethodOptions).GetDeprecated() {
		return m.GoName + " is deprecated in its .proto file."
	}
	return ""
}

// writeNames writes the constants.
func (s *service) writeNames() {
	s.P()
	s.P("// ", s.names.serviceName, " is the interface of the service's key, its full name in the .proto file.")
	s.P("const ", s.names.serviceName, " = ", strconv.Quote(s.full))
	if len(s.Methods) == 0 {
		return
	}
	s.P()
	s.P("// The full names of the methods of ", s.full, ", as gRPC has them.")
	s.P("const (")
	for _, m := range s.Methods {
		s.P(methodConstant(s.Service, m), " = ", strconv.Quote(fmt.Sprintf("/%s/%s", s.full, m.Desc.Name())))
	}
	s.P(")")
}

// messages returns the types of a method's requests and responses.
func (s *service) messages(m *protogen.Method) (req, resp string) {
	return s.QualifiedGoIdent(m.Input.GoIdent), s.QualifiedGoIdent(m.Output.GoIdent)
}

// kindOf returns the function of package rpc that makes a method like m.
func kindOf(m *protogen.Method) string {
	switch {
	case m.Desc.IsStreamingClient() && m.Desc.IsStreamingServer():
		return "BidiStream"
	case m.Desc.IsStreamingClient():
		return "ClientStream"
	case m.Desc.IsStreamingServer():
		return "ServerStream"
	}
	return "Unary"
}
