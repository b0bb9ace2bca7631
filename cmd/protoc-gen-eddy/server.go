package main

import (
	"strconv"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/descriptorpb"
)

// writeServer writes the interface of implementations, the implementation to embed, and the functions that make a service.
func (s *service) writeServer() {
	s.P()
	s.doc(s.names.server+" is what implements the service "+s.full+". Its methods run as those of an rpc.Method do.", s.Comments, s.deprecated)
	s.P("type ", s.names.server, " interface {")
	for _, m := range s.Methods {
		s.doc("", m.Comments, deprecation(m))
		s.P(s.serverSignature(m, true))
	}
	if s.require {
		s.P(s.mustEmbed())
	}
	s.P("}")
	s.writeUnimplemented()
	s.writeUnsafe()
	s.writeNewService()
	s.writeRegister()
}

// mustEmbed returns the method that only the Unimplemented server has.
func (s *service) mustEmbed() string { return "mustEmbed" + s.names.unimplemented + "()" }

// serverSignature returns a method of an implementation, with names of its parameters or without.
func (s *service) serverSignature(m *protogen.Method, named bool) string {
	req, resp := s.messages(m)
	param := func(name, kind string) string {
		if !named {
			return kind
		}
		return s.local(name) + " " + kind
	}
	sender, receiver := "*"+s.rpc("Sender")+"["+resp+"]", "*"+s.rpc("Receiver")+"["+req+"]"
	text := m.GoName + "(" + param("ctx", s.QualifiedGoIdent(contextPackage.Ident("Context")))
	switch kindOf(m) {
	case "ServerStream":
		return text + ", " + param("req", "*"+req) + ", " + param("out", sender) + ") error"
	case "ClientStream":
		return text + ", " + param("in", receiver) + ") (*" + resp + ", error)"
	case "BidiStream":
		return text + ", " + param("in", receiver) + ", " + param("out", sender) + ") error"
	}
	return text + ", " + param("req", "*"+req) + ") (*" + resp + ", error)"
}

// writeUnimplemented writes the implementation whose methods are not there.
func (s *service) writeUnimplemented() {
	n := s.names.unimplemented
	s.P()
	s.doc(n+" is embedded in implementations, by value, so that methods the .proto file gets later do not break them. "+
		"Its methods answer UNIMPLEMENTED.", protogen.CommentSet{}, s.deprecated)
	s.P("type ", n, " struct{}")
	for _, m := range s.Methods {
		result := ""
		if !m.Desc.IsStreamingServer() {
			result = "nil, "
		}
		s.P()
		s.P("// ", m.GoName, " implements ", s.names.server, ".")
		s.P("func (", n, ") ", s.serverSignature(m, false), " {")
		s.P("return ", result, s.rpc("Statusf"), "(", s.rpc("CodeUnimplemented"), `, "%s is not implemented", `, methodConstant(s.Service, m), ")")
		s.P("}")
	}
	if s.require {
		s.P()
		s.P("func (", n, ") ", s.mustEmbed(), " {}")
	}
}

// writeUnsafe writes the interface for implementations that do without the Unimplemented server.
func (s *service) writeUnsafe() {
	if !s.require {
		return
	}
	s.P()
	s.doc(s.names.unsafe+" is embedded in implementations that do not embed "+s.names.unimplemented+". "+
		"They do not compile when the .proto file gets another method.", protogen.CommentSet{}, s.deprecated)
	s.P("type ", s.names.unsafe, " interface { ", s.mustEmbed(), " }")
}

// writeNewService writes the function that makes a service of an implementation.
func (s *service) writeNewService() {
	key, srv := s.local("key"), s.local("srv")
	s.P()
	s.doc(s.names.newService+" returns the service that srv implements. The key has its group and version, which may be empty. "+
		"Without an Interface the key gets "+s.names.serviceName+".", protogen.CommentSet{}, s.deprecated)
	s.P("func ", s.names.newService, "(", key, " ", s.rpc("Key"), ", ", srv, " ", s.names.server, ") (*", s.rpc("Service"), ", error) {")
	s.P("if ", srv, " == nil {")
	s.P("return nil, ", s.QualifiedGoIdent(errorsPackage.Ident("New")), "(", strconv.Quote(s.full+": "+s.names.newService+" of a nil "+s.names.server), ")")
	s.P("}")
	s.P(key, ".Interface = ", s.QualifiedGoIdent(cmpPackage.Ident("Or")), "(", key, ".Interface, ", s.names.serviceName, ")")
	s.P("return ", s.rpc("NewService"), "(", key, ",")
	for _, m := range s.Methods {
		s.P(s.rpc(kindOf(m)), "(", strconv.Quote(string(m.Desc.Name())), ", ", srv, ".", m.GoName, ")", marks(m), ",")
	}
	s.P(")")
	s.P("}")
}

// marks returns the call that marks a method without side effects.
func marks(m *protogen.Method) string {
	if m.Desc.Options().(*descriptorpb.MethodOptions).GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		return ".NoSideEffects()"
	}
	return ""
}

// writeRegister writes the function that registers an implementation.
func (s *service) writeRegister() {
	to, srv, opts := s.local("s"), s.local("srv"), s.local("opts")
	s.P()
	s.doc(s.names.register+" registers srv with a server, without group and version. Use "+s.names.newService+" for a service that has them.",
		protogen.CommentSet{}, s.deprecated)
	s.P("func ", s.names.register, "(", to, " *", s.rpc("Server"), ", ", srv, " ", s.names.server, ", ", opts, " ...", s.rpc("RegisterOption"), ") error {")
	s.P("svc, err := ", s.names.newService, "(", s.rpc("Key"), "{}, ", srv, ")")
	s.P("if err != nil {")
	s.P("return err")
	s.P("}")
	s.P("return ", to, ".Register(svc, ", opts, "...)")
	s.P("}")
}
