package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/tlsx"
)

// conformance has the messages of the runner, made of its .proto files.
type conformance struct {
	types map[protoreflect.Name]protoreflect.MessageType
}

const conformancePackage = "connectrpc/conformance/v1/"

// loadConformance compiles the files in dir, and makes their messages known to the program, for those inside of an Any.
func loadConformance(dir string) (*conformance, error) {
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}})}
	files, err := c.Compile(context.Background(), conformancePackage+"config.proto", conformancePackage+"service.proto", conformancePackage+"server_compat.proto", conformancePackage+"client_compat.proto")
	if err != nil {
		return nil, err
	}
	types := make(map[protoreflect.Name]protoreflect.MessageType)
	for _, f := range files {
		if err := protoregistry.GlobalFiles.RegisterFile(f); err != nil {
			return nil, err
		}
		for i := range f.Messages().Len() {
			t := dynamicpb.NewMessageType(f.Messages().Get(i))
			types[t.Descriptor().Name()] = t
			if err := protoregistry.GlobalTypes.RegisterMessage(t); err != nil {
				return nil, err
			}
		}
	}
	return &conformance{types}, nil
}

// msg is a message whose fields have names.
type msg struct{ protoreflect.Message }

func (c *conformance) newMsg(name protoreflect.Name) msg { return msg{c.types[name].New()} }

func (m msg) field(name protoreflect.Name) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(name)
}
func (m msg) get(name protoreflect.Name) protoreflect.Value { return m.Get(m.field(name)) }
func (m msg) has(name protoreflect.Name) bool               { return m.Has(m.field(name)) }
func (m msg) sub(name protoreflect.Name) msg                { return msg{m.get(name).Message()} }
func (m msg) set(name protoreflect.Name, v any) {
	m.Set(m.field(name), protoreflect.ValueOf(v))
}
func (m msg) mutable(name protoreflect.Name) msg { return msg{m.Mutable(m.field(name)).Message()} }

// readMsg reads a message behind its length in four bytes.
func (c *conformance) readMsg(r io.Reader, name protoreflect.Name) (msg, error) {
	var size uint32
	if err := binary.Read(r, binary.BigEndian, &size); err != nil {
		return msg{}, err
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return msg{}, err
	}
	m := c.newMsg(name)
	return m, proto.Unmarshal(b, m.Interface())
}

// serveConformance is the server of the runner: it reads what is wanted, says where it listens, and serves until it is
// signaled to end.
func serveConformance(dir string, r io.Reader, w io.Writer) error {
	c, err := loadConformance(dir)
	if err != nil {
		return err
	}
	wanted, err := c.readMsg(r, "ServerCompatRequest")
	if err != nil {
		return err
	}
	port := rpc.PortOptions{Addr: "127.0.0.1:0", MaxPayload: 4 << 20, MaxResponse: 16 << 20}
	if n := wanted.get("message_receive_limit").Uint(); n > 0 {
		port.MaxPayload = int(n)
	}
	answer := c.newMsg("ServerCompatResponse")
	if wanted.get("use_tls").Bool() {
		cert := wanted.sub("server_creds").get("cert").Bytes()
		layer, pool, err := conformanceTLS(cert, wanted.sub("server_creds").get("key").Bytes(), wanted.get("client_tls_cert").Bytes())
		if err != nil {
			return err
		}
		defer func() { _, _ = pool.Shutdown(context.Background()) }()
		port.Front = func(p *eddy.Pipeline) error { return p.Add("tls", layer) }
		answer.set("pem_cert", cert)
	}
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{port}})
	if err != nil {
		return err
	}
	defer func() { _ = srv.Close() }()
	if err := c.register(srv); err != nil {
		return err
	}
	if err := srv.Listen(); err != nil {
		return err
	}
	answer.set("host", "127.0.0.1")
	answer.set("port", uint32(srv.Addr("port0").(*net.TCPAddr).Port))
	b, err := proto.Marshal(answer.Interface())
	if err != nil {
		return err
	}
	if _, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	return nil
}

// conformanceTLS returns the layer of TLS that a case wants.
func conformanceTLS(cert, key, client []byte) (*tlsx.Layer, *executor.Pool, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if len(client) > 0 {
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(client)
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	pool, err := executor.NewFixed(executor.Options{Name: "tls", Workers: 4, Queue: tlsx.DefaultMaxHandshakes})
	if err != nil {
		return nil, nil, err
	}
	layer, err := tlsx.Server(config, pool, tlsx.Options{})
	return layer, pool, err
}

// register adds the service that the runner calls. Unimplemented is not there.
func (c *conformance) register(srv *rpc.Server) error {
	svc, err := rpc.NewService(rpc.Key{Interface: "connectrpc.conformance.v1.ConformanceService"},
		c.unary("Unary"), c.unary("IdempotentUnary").NoSideEffects(),
		rpc.Streaming("ServerStream", rpc.ServerStreams, c.serverStream),
		rpc.Streaming("ClientStream", rpc.ClientStreams, c.clientStream),
		rpc.Streaming("BidiStream", rpc.BothStream, c.bidiStream),
	)
	if err != nil {
		return err
	}
	return srv.Register(svc)
}

func (c *conformance) unary(name protoreflect.Name) rpc.Method {
	return rpc.Decoding(string(name), func(ctx context.Context, decode func(any) error) (any, error) {
		req := c.newMsg(name + "Request")
		if err := decode(req.Interface()); err != nil {
			return nil, err
		}
		return c.answer(ctx, name+"Response", req, []msg{req})
	})
}

func (c *conformance) clientStream(ctx context.Context, s rpc.Stream) error {
	all, err := c.receive(s, "ClientStreamRequest")
	if err != nil {
		return err
	}
	def := c.newMsg("ClientStreamRequest")
	if len(all) > 0 {
		def = all[0]
	}
	resp, err := c.answer(ctx, "ClientStreamResponse", def, all)
	if err != nil {
		return err
	}
	return s.Send(resp)
}

// answer makes the one response, or the error, that the definition in def wants for requests.
func (c *conformance) answer(ctx context.Context, name protoreflect.Name, def msg, requests []msg) (proto.Message, error) {
	d := def.sub("response_definition")
	info, err := c.info(ctx, requests)
	if err != nil {
		return nil, err
	}
	if err := metadata(ctx, d); err != nil {
		return nil, err
	}
	delay(ctx, d)
	if d.has("error") {
		return nil, statusOf(d.sub("error"), info)
	}
	resp := c.newMsg(name)
	payload := resp.mutable("payload")
	payload.set("data", d.get("response_data").Bytes())
	payload.Set(payload.field("request_info"), protoreflect.ValueOfMessage(info.ProtoReflect()))
	return resp.Interface(), nil
}

func (c *conformance) serverStream(ctx context.Context, s rpc.Stream) error {
	req := c.newMsg("ServerStreamRequest")
	if err := s.Recv(req.Interface()); err != nil {
		return err
	}
	return c.responses(ctx, s, "ServerStreamResponse", req.sub("response_definition"), []msg{req})
}

// responses sends what a definition says, with requests in the first response.
func (c *conformance) responses(ctx context.Context, s rpc.Stream, name protoreflect.Name, d msg, requests []msg) error {
	if err := metadata(ctx, d); err != nil {
		return err
	}
	if err := rpc.SendHeader(ctx); err != nil {
		return err
	}
	info, err := c.info(ctx, requests)
	if err != nil {
		return err
	}
	data := d.get("response_data").List()
	for i := range data.Len() {
		delay(ctx, d)
		if err := c.send(s, name, data.Get(i).Bytes(), info); err != nil {
			return err
		}
		info = nil
	}
	if d.has("error") {
		return statusOf(d.sub("error"), info)
	}
	return nil
}

// bidiStream answers each request at once, or all when there are no more.
func (c *conformance) bidiStream(ctx context.Context, s rpc.Stream) error {
	first := c.newMsg("BidiStreamRequest")
	if err := s.Recv(first.Interface()); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	d := first.sub("response_definition")
	if !first.get("full_duplex").Bool() {
		rest, err := c.receive(s, "BidiStreamRequest")
		if err != nil {
			return err
		}
		return c.responses(ctx, s, "BidiStreamResponse", d, append([]msg{first}, rest...))
	}
	if err := metadata(ctx, d); err != nil {
		return err
	}
	if err := rpc.SendHeader(ctx); err != nil {
		return err
	}
	data, next := d.get("response_data").List(), 0
	for req := first; ; {
		info, err := c.info(ctx, []msg{req})
		if err != nil {
			return err
		}
		if next > 0 { // headers and the timeout are told once
			requests := info.ProtoReflect()
			trimmed := c.requestInfo()
			trimmed.Set(trimmed.field("requests"), requests.Get(trimmed.field("requests")))
			info = trimmed.Interface()
		}
		if next >= data.Len() {
			if d.has("error") {
				if next > 0 {
					info = nil
				}
				return statusOf(d.sub("error"), info)
			}
			return nil
		}
		delay(ctx, d)
		if err := c.send(s, "BidiStreamResponse", data.Get(next).Bytes(), info); err != nil {
			return err
		}
		next++
		req = c.newMsg("BidiStreamRequest")
		if err := s.Recv(req.Interface()); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	for ; next < data.Len(); next++ {
		delay(ctx, d)
		if err := c.send(s, "BidiStreamResponse", data.Get(next).Bytes(), nil); err != nil {
			return err
		}
	}
	if d.has("error") {
		return statusOf(d.sub("error"), nil)
	}
	return nil
}

func (c *conformance) send(s rpc.Stream, name protoreflect.Name, data []byte, info proto.Message) error {
	resp := c.newMsg(name)
	payload := resp.mutable("payload")
	payload.set("data", data)
	if info != nil {
		payload.Set(payload.field("request_info"), protoreflect.ValueOfMessage(info.ProtoReflect()))
	}
	return s.Send(resp.Interface())
}

// receive reads requests up to the last one.
func (c *conformance) receive(s rpc.Stream, name protoreflect.Name) (all []msg, err error) {
	for {
		m := c.newMsg(name)
		switch err := s.Recv(m.Interface()); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, m)
	}
}

func (c *conformance) requestInfo() msg {
	return c.newMsg("ConformancePayload").mutable("request_info")
}

// info tells the runner what has come.
func (c *conformance) info(ctx context.Context, requests []msg) (proto.Message, error) {
	info := c.requestInfo()
	headers := info.Mutable(info.field("request_headers")).List()
	byName := make(map[string]msg)
	for _, p := range rpc.CallFrom(ctx).Metadata {
		h, ok := byName[p.Key]
		if !ok {
			h = msg{headers.NewElement().Message()}
			headers.Append(protoreflect.ValueOfMessage(h.Message))
			byName[p.Key] = h
			h.set("name", p.Key)
		}
		h.Mutable(h.field("value")).List().Append(protoreflect.ValueOfString(p.Value))
	}
	if by, ok := ctx.Deadline(); ok {
		info.set("timeout_ms", time.Until(by).Milliseconds())
	}
	if rpc.CallFrom(ctx).Get {
		info.mutable("connect_get_info")
	}
	list := info.Mutable(info.field("requests")).List()
	for _, r := range requests {
		a, err := anypb.New(r.Interface())
		if err != nil {
			return nil, err
		}
		e := msg{list.NewElement().Message()}
		e.set("type_url", a.TypeUrl)
		e.set("value", a.Value)
		list.Append(protoreflect.ValueOfMessage(e.Message))
	}
	return info.Interface(), nil
}

// metadata sets the header and the trailer that a definition wants.
func metadata(ctx context.Context, d msg) error {
	for name, set := range map[protoreflect.Name]func(context.Context, ...rpc.Pair) error{"response_headers": rpc.SetHeader, "response_trailers": rpc.SetTrailer} {
		list := d.get(name).List()
		for i := range list.Len() {
			h := msg{list.Get(i).Message()}
			values := h.get("value").List()
			for k := range values.Len() {
				if err := set(ctx, rpc.Pair{Key: h.get("name").String(), Value: values.Get(k).String()}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// delay waits as long as a definition says.
func delay(ctx context.Context, d msg) {
	if ms := d.get("response_delay_ms").Uint(); ms > 0 {
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// statusOf returns the error that a definition wants, with info in its details unless that was sent.
func statusOf(e msg, info proto.Message) error {
	s := &rpc.Status{Code: rpc.Code(e.get("code").Enum()), Message: e.get("message").String()}
	list := e.get("details").List()
	for i := range list.Len() {
		d := msg{list.Get(i).Message()}
		m, err := (&anypb.Any{TypeUrl: d.get("type_url").String(), Value: d.get("value").Bytes()}).UnmarshalNew()
		if err != nil {
			return fmt.Errorf("a detail: %w", err)
		}
		s.Details = append(s.Details, m)
	}
	if info != nil {
		s.Details = append(s.Details, info)
	}
	return s
}
