package main

import (
	"strconv"

	"google.golang.org/protobuf/compiler/protogen"
)

// writeClient writes the interface of clients, its implementation and the functions that make it.
func (s *service) writeClient() {
	s.P()
	s.doc(s.names.client+" calls the service "+s.full+".", s.Comments, s.deprecated)
	s.P("type ", s.names.client, " interface {")
	for _, m := range s.Methods {
		s.doc("", m.Comments, deprecation(m))
		s.P(s.clientSignature(m))
	}
	s.P("}")
	s.P()
	s.P("type ", s.names.clientType, " struct {")
	s.P("caller ", s.rpc("Caller"))
	s.P("key ", s.rpc("Key"))
	s.P("}")
	s.writeNewClient()
	for _, m := range s.Methods {
		s.writeCall(m)
	}
}

// writeNewClient writes the functions that make a client.
func (s *service) writeNewClient() {
	caller, key := s.local("caller"), s.local("key")
	own := s.names.newClient + " returns a client of the service without group and version. The caller is an *rpc.GRPCClient, " +
		"or an *rpc.Client whose Codec is rpc.CodecProtobuf or rpc.CodecJSON."
	if s.streams() {
		own += " Methods that stream need an *rpc.GRPCClient. With an *rpc.Client they return rpc.ErrNoStreams."
	}
	s.P()
	s.doc(own, protogen.CommentSet{}, s.deprecated)
	s.P("func ", s.names.newClient, "(", caller, " ", s.rpc("Caller"), ") ", s.names.client, " {")
	s.P("return ", s.names.newClientFor, "(", caller, ", ", s.rpc("Key"), "{})")
	s.P("}")
	s.P()
	s.doc(s.names.newClientFor+" is "+s.names.newClient+" for the service with the group and version of key. "+
		"Without an Interface the key gets "+s.names.serviceName+".", protogen.CommentSet{}, s.deprecated)
	s.P("func ", s.names.newClientFor, "(", caller, " ", s.rpc("Caller"), ", ", key, " ", s.rpc("Key"), ") ", s.names.client, " {")
	s.P(key, ".Interface = ", s.QualifiedGoIdent(cmpPackage.Ident("Or")), "(", key, ".Interface, ", s.names.serviceName, ")")
	s.P("return &", s.names.clientType, "{", caller, ", ", key, "}")
	s.P("}")
}

// streams reports whether a method of the service streams.
func (s *service) streams() bool {
	for _, m := range s.Methods {
		if kindOf(m) != "Unary" {
			return true
		}
	}
	return false
}

// clientSignature returns a method of the client.
func (s *service) clientSignature(m *protogen.Method) string {
	req, resp := s.messages(m)
	text := m.GoName + "(" + s.local("ctx") + " " + s.QualifiedGoIdent(contextPackage.Ident("Context"))
	if !m.Desc.IsStreamingClient() {
		text += ", " + s.local("req") + " *" + req
	}
	text += ", " + s.local("opts") + " ..." + s.rpc("CallOption") + ") (*"
	switch kind := kindOf(m); kind {
	case "Unary":
		text += resp
	case "ServerStream":
		text += s.rpc("ServerStreamCall") + "[" + resp + "]"
	default:
		text += s.rpc(kind+"Call") + "[" + req + ", " + resp + "]"
	}
	return text + ", error)"
}

// writeCall writes a method of the client.
func (s *service) writeCall(m *protogen.Method) {
	req, resp := s.messages(m)
	function, arg := s.rpc("Invoke")+"["+resp+"]", ", "+s.local("req")
	switch kind := kindOf(m); kind {
	case "Unary":
	case "ServerStream":
		function = s.rpc("OpenServerStream") + "[" + resp + "]"
	default:
		function, arg = s.rpc("Open"+kind)+"["+req+", "+resp+"]", ""
	}
	c := s.local("c")
	s.P()
	s.P("func (", c, " *", s.names.clientType, ") ", s.clientSignature(m), " {")
	s.P("return ", function, "(", s.local("ctx"), ", ", c, ".caller, ", c, ".key, ", strconv.Quote(string(m.Desc.Name())), arg, ", ", s.local("opts"), "...)")
	s.P("}")
}
