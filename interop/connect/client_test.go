package connect

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/tlsx"
)

// Numbers of the runner's enumerations.
const (
	codecJSON       = 2
	compressionGzip = 2
	fullDuplex      = 5
)

// callConformance is the client of the runner: it makes the calls that it reads, several at a time, and writes what has
// become of each.
func callConformance(dir string, r io.Reader, w io.Writer) error {
	c, err := loadConformance(dir)
	if err != nil {
		return err
	}
	known = c
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		written error
		places  = make(chan struct{}, 8)
	)
	in := bufio.NewReader(r)
	for {
		req, err := c.readMsg(in, "ClientCompatRequest")
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			resp := c.newMsg("ClientCompatResponse")
			resp.set("test_name", req.get("test_name").String())
			if err := c.call(req, resp); err != nil {
				resp.mutable("error").set("message", err.Error())
			}
			b, err := proto.Marshal(resp.Interface())
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
			}
			written = errors.Join(written, err)
		})
	}
	all.Wait()
	return written
}

// call makes one call. The error says why it could not be tried.
func (c *conformance) call(req, resp msg) error {
	cl, end, err := c.client(req)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var header, trailer rpc.Metadata
	opts := []rpc.CallOption{rpc.CallHeader(&header), rpc.CallTrailer(&trailer)}
	if req.has("timeout_ms") {
		opts = append(opts, rpc.CallTimeout(time.Duration(req.get("timeout_ms").Uint())*time.Millisecond))
	}
	headers := req.get("request_headers").List()
	for i := range headers.Len() {
		h := msg{headers.Get(i).Message()}
		values := h.get("value").List()
		for k := range values.Len() {
			opts = append(opts, rpc.CallMetadata(rpc.Pair{Key: h.get("name").String(), Value: values.Get(k).String()}))
		}
	}
	t := &talk{c: c, req: req, cancel: cancel, result: resp.mutable("response"), key: rpc.Key{Interface: req.get("service").String()}, name: req.get("method").String()}
	switch t.name {
	case "Unary":
		unary[response[unaryName]](ctx, t, cl, opts)
	case "IdempotentUnary":
		unary[response[idempotentName]](ctx, t, cl, opts)
	case "Unimplemented":
		unary[response[unimplementedName]](ctx, t, cl, opts)
	case "ClientStream":
		err = t.clientStream(ctx, cl, opts)
	default:
		err = t.stream(ctx, cl, opts)
	}
	if err != nil {
		return err
	}
	writeHeaders(t.result, "response_headers", header)
	writeHeaders(t.result, "response_trailers", trailer)
	return nil
}

// client returns a client as a request wants it, and what ends it.
func (c *conformance) client(req msg) (*rpc.GRPCClient, func(), error) {
	o := rpc.GRPCOptions{
		Codec: rpc.CodecProtobuf, Timeout: -1, MaxPayload: 16 << 20, Gzip: req.get("compression").Enum() == compressionGzip,
		Targets: []string{fmt.Sprintf("http://%s:%d", req.get("host").String(), req.get("port").Uint())},
	}
	if req.get("codec").Enum() == codecJSON {
		o.Codec = rpc.CodecJSON
	}
	if n := req.get("message_receive_limit").Uint(); n > 0 {
		o.MaxPayload = int(n)
	}
	end := func() {}
	if cert := req.get("server_tls_cert").Bytes(); len(cert) > 0 {
		config := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}}
		config.RootCAs.AppendCertsFromPEM(cert)
		if req.has("client_tls_creds") {
			pair, err := tls.X509KeyPair(req.sub("client_tls_creds").get("cert").Bytes(), req.sub("client_tls_creds").get("key").Bytes())
			if err != nil {
				return nil, nil, err
			}
			config.Certificates = []tls.Certificate{pair}
		}
		pool, err := executor.NewFixed(executor.Options{Name: "tls", Workers: 2, Queue: tlsx.DefaultMaxHandshakes})
		if err != nil {
			return nil, nil, err
		}
		secure, err := tlsx.Secure(config, pool, tlsx.Options{})
		if err != nil {
			return nil, nil, err
		}
		o.Targets[0] = strings.Replace(o.Targets[0], "http", "https", 1)
		o.Transport = &http2.Transport{Secure: secure, MaxConnsPerHost: 1}
		end = func() {
			_ = o.Transport.Close()
			_, _ = pool.Shutdown(context.Background())
		}
	}
	cl, err := rpc.NewGRPCClient(o)
	return cl, func() { _ = cl.Close(); end() }, err
}

// response is the response of a method as a type, because calls with one response make a value of it. N names the message.
type response[N interface{ messageName() protoreflect.Name }] struct{ m protoreflect.Message }

// known are the messages of responses, once loaded.
var known *conformance

// ProtoReflect implements proto.Message.
func (r *response[N]) ProtoReflect() protoreflect.Message {
	if r.m == nil {
		var n N
		r.m = known.newMsg(n.messageName()).Message
	}
	return r.m
}

type (
	unaryName         struct{}
	idempotentName    struct{}
	unimplementedName struct{}
	clientStreamName  struct{}
)

func (unaryName) messageName() protoreflect.Name         { return "UnaryResponse" }
func (idempotentName) messageName() protoreflect.Name    { return "IdempotentUnaryResponse" }
func (unimplementedName) messageName() protoreflect.Name { return "UnimplementedResponse" }
func (clientStreamName) messageName() protoreflect.Name  { return "ClientStreamResponse" }

// talk is a call under way.
type talk struct {
	c      *conformance
	req    msg
	cancel func()
	result msg
	key    rpc.Key
	name   string

	got  int
	over bool
}

// requests are the messages that the runner wants sent.
func (t *talk) requests() (all []proto.Message) {
	list := t.req.get("request_messages").List()
	for i := range list.Len() {
		m := t.c.newMsg(protoreflect.Name(t.name) + "Request")
		if err := proto.Unmarshal(msg{list.Get(i).Message()}.get("value").Bytes(), m.Interface()); err != nil {
			panic(err)
		}
		all = append(all, m.Interface())
	}
	return all
}

func (t *talk) pause() {
	time.Sleep(time.Duration(t.req.get("request_delay_ms").Uint()) * time.Millisecond)
}

// cancelLater cancels the call if the runner wants that behind the last request.
func (t *talk) cancelLater() {
	if when := t.req.sub("cancel"); t.req.has("cancel") && !when.has("after_num_responses") && !when.has("before_close_send") {
		time.AfterFunc(time.Duration(when.get("after_close_send_ms").Uint())*time.Millisecond, t.cancel)
	}
}

// unary makes a call with one request and one response.
func unary[Resp any](ctx context.Context, t *talk, cl *rpc.GRPCClient, opts []rpc.CallOption) {
	t.pause()
	t.cancelLater()
	resp, err := rpc.Invoke[Resp](ctx, cl, t.key, t.name, t.requests()[0], opts...)
	t.outcome(any(resp), err)
}

// outcome notes the only response, or the error.
func (t *talk) outcome(resp any, err error) {
	if err != nil {
		t.fail(err)
		return
	}
	m := msg{resp.(proto.Message).ProtoReflect()}
	if m.field("payload") != nil {
		t.took(m)
	}
}

func (t *talk) clientStream(ctx context.Context, cl *rpc.GRPCClient, opts []rpc.CallOption) error {
	s, err := rpc.OpenClientStream[dynamicpb.Message, response[clientStreamName]](ctx, cl, t.key, t.name, opts...)
	if err != nil {
		return err
	}
	defer s.Close()
	all := t.requests()
	for i, m := range all {
		t.pause()
		if err := s.Send(m.(*dynamicpb.Message)); err != nil {
			t.result.set("num_unsent_requests", int32(len(all)-i))
			break
		}
	}
	if t.req.sub("cancel").has("before_close_send") {
		t.cancel()
	}
	t.cancelLater()
	resp, err := s.CloseAndRecv()
	t.outcome(resp, err)
	return nil
}

// stream makes a call with any number of responses, each behind its request if the stream is full duplex.
func (t *talk) stream(ctx context.Context, cl *rpc.GRPCClient, opts []rpc.CallOption) error {
	s, err := rpc.OpenStream(ctx, cl, t.key, t.name, opts...)
	if err != nil {
		return err
	}
	defer s.Close()
	all := t.requests()
	for i, m := range all {
		t.pause()
		if err := s.Send(m); err != nil {
			t.result.set("num_unsent_requests", int32(len(all)-i))
			break
		}
		if t.req.get("stream_type").Enum() == fullDuplex && !t.over {
			t.receive(s)
		}
	}
	if t.req.sub("cancel").has("before_close_send") {
		t.cancel()
	} else {
		_ = s.CloseSend()
	}
	t.cancelLater()
	for !t.over {
		t.receive(s)
	}
	return nil
}

// receive reads a response, or the end.
func (t *talk) receive(s *rpc.CallStream) {
	m := t.c.newMsg(protoreflect.Name(t.name) + "Response")
	if err := s.Recv(m.Interface()); err != nil {
		t.over = true
		if !errors.Is(err, io.EOF) {
			t.fail(err)
		}
		return
	}
	t.took(m)
	if t.got++; t.got == int(t.req.sub("cancel").get("after_num_responses").Uint()) {
		t.cancel()
	}
}

// took notes a response.
func (t *talk) took(m msg) {
	list := t.result.Mutable(t.result.field("payloads")).List()
	list.Append(protoreflect.ValueOfMessage(m.mutable("payload").Message))
}

// fail notes the error of the call.
func (t *talk) fail(err error) {
	e := t.result.mutable("error")
	e.set("code", protoreflect.EnumNumber(rpc.CodeOf(err)))
	e.set("message", err.Error())
	if s, ok := errors.AsType[*rpc.Status](err); ok {
		e.set("message", s.Message)
		list := e.Mutable(e.field("details")).List()
		for _, d := range s.Details {
			whole, ok := d.(*anypb.Any) // a type that the program lacks
			if !ok {
				if whole, err = anypb.New(d); err != nil {
					panic(err)
				}
			}
			a := msg{list.NewElement().Message()}
			a.set("type_url", whole.TypeUrl)
			a.set("value", whole.Value)
			list.Append(protoreflect.ValueOfMessage(a.Message))
		}
	}
}

// writeHeaders notes metadata as the runner has it: values of -bin keys in base64.
func writeHeaders(m msg, field protoreflect.Name, pairs rpc.Metadata) {
	list := m.Mutable(m.field(field)).List()
	byName := make(map[string]msg)
	for _, p := range pairs {
		h, ok := byName[p.Key]
		if !ok {
			h = msg{list.NewElement().Message()}
			h.set("name", p.Key)
			list.Append(protoreflect.ValueOfMessage(h.Message))
			byName[p.Key] = h
		}
		v := p.Value
		if strings.HasSuffix(p.Key, "-bin") {
			v = base64.RawStdEncoding.EncodeToString([]byte(v))
		}
		h.Mutable(h.field("value")).List().Append(protoreflect.ValueOfString(v))
	}
}
