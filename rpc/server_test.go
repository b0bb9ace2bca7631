package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// greeter has a method of each form.
func greeter(t testing.TB, key string) *Service {
	return newService(t, key,
		Unary("Hello", func(_ context.Context, req *greeting) (*greeting, error) {
			if req.Name == "" {
				return nil, errors.New("nobody is there")
			}
			return &greeting{Name: "Hello, " + req.Name, Times: req.Times + 1}, nil
		}),
		Unary("Proto", func(_ context.Context, req *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
			return wrapperspb.String(strings.ToUpper(req.Value)), nil
		}),
		Unary("Bytes", func(_ context.Context, req *[]byte) (*[]byte, error) {
			out := append(*req, '!')
			return &out, nil
		}),
		Unary("Nil", func(context.Context, *greeting) (*greeting, error) { return nil, nil }),
		OneWay("Note", func(context.Context, *greeting) error { return nil }),
		Raw("Echo", func(_ context.Context, body []byte) ([]byte, error) { return body, nil }),
		Raw("Status", func(context.Context, []byte) ([]byte, error) {
			return nil, &frame.StatusError{Status: frame.StatusUnauthenticated, Message: "who are you"}
		}),
		Raw("Details", func(context.Context, []byte) ([]byte, error) {
			return nil, fmt.Errorf("why: %w", detailed{&frame.StatusError{Status: frame.StatusUnauthenticated, Message: "who are you", Details: "old"}})
		}),
		Raw("Other", func(context.Context, []byte) ([]byte, error) {
			return nil, fmt.Errorf("asking another server: %w", executor.ErrRejected)
		}),
		Raw("Late", func(context.Context, []byte) ([]byte, error) {
			return nil, fmt.Errorf("asking another server: %w", context.DeadlineExceeded)
		}),
		Raw("GaveUp", func(context.Context, []byte) ([]byte, error) { return nil, context.Canceled }),
		Raw("Goaway", func(context.Context, []byte) ([]byte, error) {
			return nil, &frame.StatusError{Status: frame.StatusGoAway}
		}),
	)
}

// detailed is an error with details, as package dubbo has them.
type detailed struct{ error }

func (d detailed) Unwrap() error { return d.error }
func (detailed) Details() string { return "\x00\xff" }

// TestCalls: the bytes of calls and of their answers, on a pool and on the loop.
func TestCalls(t *testing.T) {
	pb, err := proto.Marshal(wrapperspb.String("abc"))
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 200_000)
	for _, d := range []Dispatcher{DispatchAll, DispatchDirect} {
		t.Run(d.String(), func(t *testing.T) {
			s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Dispatcher: d}}}), greeter(t, rawKey))
			c := dialRaw(t, s.Addr("port0"))
			id := uint64(0)
			answered := map[frame.Status]uint64{ok: 2, notFound: 1, badRequestStatus: 1} // what follows the table, with the PING of silent
			for _, call := range []struct {
				what         string
				codec        byte
				key, method  string
				body, answer string
				status       byte
			}{
				{"JSON", 1, rawKey, "Hello", `{"name":"Ann","times":1,"new":true}`, `{"name":"Hello, Ann","times":2}`, ok},
				{"an error", 1, rawKey, "Hello", `{}`, "nobody is there", appError},
				{"no JSON", 1, rawKey, "Hello", `{`, "rpc: a body that is no JSON", badRequestStatus},
				{"nil", 1, rawKey, "Nil", `{}`, "the method returned nil and no error", internalError},
				{"protobuf", 2, rawKey, "Proto", string(pb), "\x0a\x03ABC", ok},
				{"no protobuf", 2, rawKey, "Proto", "\xff", "rpc: a body that is no protobuf", badRequestStatus},
				{"protobuf as JSON", 1, rawKey, "Proto", `"abc"`, `"ABC"`, ok},
				{"bytes", 0, rawKey, "Bytes", "abc", "abc!", ok},
				{"raw", 0, rawKey, "Echo", "abc", "abc", ok},
				{"raw, big", 0, rawKey, "Echo", big, big, ok},
				{"raw, empty", 0, rawKey, "Echo", "", "", ok},
				{"raw with JSON", 1, rawKey, "Echo", "[1", "[1", ok},
				{"raw for JSON", 0, rawKey, "Hello", "", `rpc: method "Hello" takes no raw`, badRequestStatus},
				{"protobuf for JSON", 2, rawKey, "Hello", "", `rpc: method "Hello" takes no protobuf`, badRequestStatus},
				{"no service", 1, "/test:2", "Hello", "", `no service "/test:2"`, notFound},
				{"no service in the group", 1, "g/test:1", "Hello", "", `no service "g/test:1"`, notFound},
				{"no method", 1, rawKey, "hello", "", `service "/test:1" has no method "hello"`, notFound},
				{"no key", 1, "test", "Hello", "", "rpc: service key", badRequestStatus},
				{"codec 3", 3, rawKey, "Hello", "", "rpc: the codec of the prefix is unknown", badRequestStatus},
				{"a status", 0, rawKey, "Status", "", "who are you", 10},
				{"details", 0, rawKey, "Details", "", "who are you|\x00\xff", 10},
				{"somebody else's BUSY", 0, rawKey, "Other", "", "asking another server", appError},
				{"somebody else's deadline", 0, rawKey, "Late", "", "asking another server", deadlineExceeded},
				{"given up", 0, rawKey, "GaveUp", "", "context canceled", canceled},
				{"a status of connections", 0, rawKey, "Goaway", "", "the handler chose the status GOAWAY", internalError},
				{"one-way, called", 1, rawKey, "Note", "{}", "{}", ok},
				{"health", 1, "/eddy.Health:", "Check", "{}", `{"status":"SERVING"}`, ok},
			} {
				id++
				answered[frame.Status(call.status)]++
				c.send(rawFrame(id, 2, rawCall(0, call.codec, call.key, call.method, call.body)))
				got := c.expect(id, call.status)
				if call.status == ok && got != call.answer || !strings.HasPrefix(got, call.answer) {
					t.Errorf("%s: %.200q, want %.200q", call.what, got, call.answer)
				}
			}
			c.send(rawFrame(900, 2, []byte{1, 2, 3}))
			if got := c.expect(900, badRequestStatus); got != "rpc: the prefix is cut short" {
				t.Error(got)
			}
			c.send(rawFrame(901, 1, []byte("echo")))
			if got := c.expect(901, ok); got != "echo" {
				t.Error(got)
			}
			c.send(rawFrame(902, 16, nil))
			if got := c.expect(902, notFound); got != "operation OP 16 is not served" {
				t.Error(got)
			}
			c.send(rawFrame(903, 3, rawCall(0, 1, rawKey, "Note", "{}")))
			c.send(rawFrame(904, 3, rawCall(0, 1, rawKey, "Hello", "{}")))
			c.send(rawFrame(905, 3, rawCall(0, 1, rawKey, "missing", "{}")))
			c.silent(906)
			for status, n := range s.Stats().Ports["port0"].Answers {
				if n != answered[status] {
					t.Errorf("%d answers %v were counted, want %d", n, status, answered[status])
				}
			}
		})
	}
}

// TestServerOptions: what makes no sense is refused, by name.
func TestServerOptions(t *testing.T) {
	port := PortOptions{Name: "a", Addr: "127.0.0.1:0"}
	with := func(change func(*PortOptions)) ServerOptions {
		p := port
		change(&p)
		return ServerOptions{Ports: []PortOptions{p}}
	}
	for name, o := range map[string]ServerOptions{
		"Ports is empty":                     {},
		"two ports":                          {Ports: []PortOptions{port, port}},
		"Isolation":                          {Ports: []PortOptions{port}, Isolation: 7},
		"Addr is empty":                      with(func(p *PortOptions) { p.Addr = "" }),
		"PortOptions.Addr":                   with(func(p *PortOptions) { p.Addr = "here" }),
		"Accepts is -1":                      with(func(p *PortOptions) { p.Accepts = -1 }),
		"Dispatcher is 9":                    with(func(p *PortOptions) { p.Dispatcher = 9 }),
		"Threads is -1":                      with(func(p *PortOptions) { p.Pool.Threads = -1 }),
		"CoreThreads is -1":                  with(func(p *PortOptions) { p.Pool.CoreThreads = -1 }),
		"Queue is -1":                        with(func(p *PortOptions) { p.Pool.Queue = -1 }),
		"Kind is 8":                          with(func(p *PortOptions) { p.Pool.Kind = 8 }),
		"KeepAlive is -1ns":                  with(func(p *PortOptions) { p.Pool.KeepAlive = -1 }),
		"InFlight is -1":                     with(func(p *PortOptions) { p.InFlight = -1 }),
		"MaxPayload is -1":                   with(func(p *PortOptions) { p.MaxPayload = -1 }),
		"MaxResponse is -1":                  with(func(p *PortOptions) { p.MaxResponse = -1 }),
		"Origins has \"https://a.example/\"": with(func(p *PortOptions) { p.Origins = []string{"*", "https://a.example/"} }),
		"Origins has \"a.example\"":          with(func(p *PortOptions) { p.Origins = []string{"a.example"} }),
		"Ordering is 9":                      with(func(p *PortOptions) { p.Ordering = 9 }),
		"Options.Core is 20":                 with(func(p *PortOptions) { p.Pool.Threads, p.Pool.CoreThreads = 10, 20 }),
	} {
		s, err := NewServer(o)
		if err == nil {
			t.Errorf("%s: no error", name)
			s.Close()
			continue
		}
		if !strings.HasPrefix(err.Error(), "rpc: ") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRegister: what makes no sense is refused, by name, and changes nothing.
func TestRegister(t *testing.T) {
	s := newServer(t, ServerOptions{Ports: []PortOptions{{Name: "a"}, {Name: "b"}}})
	svc := greeter(t, rawKey)
	pool := userPool(t, "mine", PoolOptions{Threads: 1})
	for name, options := range map[string][]RegisterOption{
		"Timeout of -1ns":  {Timeout(-1)},
		"no port \"c\"":    {OnPorts("c")},
		"port \"a\" twice": {OnPorts("a", "b", "a")},
		"without a port":   {OnPorts()},
		"WithPool of nil":  {WithPool(nil)},
		"two pools":        {WithPool(pool), WithPoolOptions(PoolOptions{})},
		"InFlight of -1":   {InFlight(-1)},
	} {
		if err := s.Register(svc, options...); err == nil || !strings.HasPrefix(err.Error(), "rpc: ") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Register(nil); err == nil {
		t.Error("a nil service is registered")
	}
	if err := s.Register(svc); err != nil {
		t.Fatal(err)
	}
	if err := s.Register(greeter(t, rawKey)); err == nil || !strings.Contains(err.Error(), "is registered") {
		t.Error(err)
	}
	fn := func(context.Context, []byte) ([]byte, error) { return nil, nil }
	for name, methods := range map[string][]Method{
		"no methods":        nil,
		"without a name":    {Raw("", fn)},
		"two methods \"m\"": {Raw("m", fn), Raw("m", fn)},
		"\"m\" has no func": {Raw("m", nil)},
		"\"u\" has no func": {Unary[greeting, greeting]("u", nil)},
		"\"o\" has no func": {OneWay[greeting]("o", nil)},
		"has no function":   {{name: "x"}},
	} {
		if _, err := NewService(Key{Interface: "i"}, methods...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewService(Key{}, Raw("m", fn)); err == nil {
		t.Error("a service without an interface")
	}
	if _, err := NewService(Key{Interface: strings.Repeat("x", MaxPrefix)}, Raw("m", fn)); err == nil {
		t.Error("a key that no prefix holds")
	}
}

// TestServerLife: it listens once, registers while it does, ends once, and says so.
func TestServerLife(t *testing.T) {
	s := newServer(t, ServerOptions{Ports: []PortOptions{{Name: "auto", Addr: "127.0.0.1:-1"}}})
	if s.Addr("auto") != nil || s.Addr("none") != nil {
		t.Error("an address before Listen")
	}
	serve(t, s)
	if a := s.Addr("auto").(*net.TCPAddr); a.Port == 0 {
		t.Error("port 0")
	}
	c := dialRaw(t, s.Addr("auto"))
	c.call(1, 0, rawKey, "Echo", "x")
	c.expect(1, notFound)
	if err := s.Register(greeter(t, rawKey)); err != nil {
		t.Fatal(err)
	}
	c.call(2, 0, rawKey, "Echo", "x")
	c.expect(2, ok)
	if err := s.Listen(); err == nil {
		t.Error("listens twice")
	}
	go c.leave()
	if _, err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.Wait()
	for name, p := range s.Stats().Pools {
		if p.Workers != 0 {
			t.Errorf("%s has %d workers after the end", name, p.Workers)
		}
	}
	if _, err := s.Shutdown(t.Context()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := s.Listen(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := s.Register(greeter(t, "/late:")); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestListenFails: a port that is taken closes the others.
func TestListenFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newServer(t, ServerOptions{Ports: []PortOptions{{Name: "free"}, {Name: "taken", Addr: l.Addr().String()}}})
	if err := s.Listen(); err == nil || !strings.Contains(err.Error(), `port "taken"`) {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", s.Addr("free").String()); err == nil {
		c.Close()
		t.Error("the first port still listens")
	}
	s.Wait()
	unused := newServer(t, ServerOptions{Ports: []PortOptions{{}}})
	if _, err := unused.Shutdown(t.Context()); err != nil {
		t.Errorf("a server that never listened: %v", err)
	}
}

// TestMethodsCannotWaitForTheirServer: they would wait for themselves, on a pool and on the loop.
func TestMethodsCannotWaitForTheirServer(t *testing.T) {
	for d, want := range map[Dispatcher]error{DispatchAll: eddy.ErrOnPool, DispatchDirect: eddy.ErrOnLoop} {
		s := newServer(t, ServerOptions{Ports: []PortOptions{{Dispatcher: d}}})
		serve(t, s, newService(t, rawKey, Raw("End", func(ctx context.Context, _ []byte) ([]byte, error) {
			if _, err := s.Shutdown(ctx); !errors.Is(err, want) {
				return nil, fmt.Errorf("Shutdown: %v", err)
			}
			if err := s.Close(); !errors.Is(err, want) {
				return nil, fmt.Errorf("Close: %v", err)
			}
			return nil, nil
		})))
		c := dialRaw(t, s.Addr("port0"))
		c.call(1, 0, rawKey, "End", "")
		c.expect(1, ok)
	}
}

// TestCallInfo: what a method can learn of its call, through interceptors and derived contexts, and not when it has returned.
func TestCallInfo(t *testing.T) {
	for _, d := range []Dispatcher{DispatchAll, DispatchDirect} {
		for _, with := range []bool{false, true} {
			kept := make(chan context.Context, 1)
			var mu sync.Mutex
			var seen []string
			see := func(what string) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, what)
			}
			o := ServerOptions{Ports: []PortOptions{{Dispatcher: d}}}
			if with {
				for _, name := range []string{"a", "b"} {
					o.Interceptors = append(o.Interceptors, func(ctx context.Context, call *CallInfo, req any, next func(context.Context, any) (any, error)) (any, error) {
						see(name + call.Method)
						if v, _ := call.Metadata.Get("stop"); v == name {
							return nil, &frame.StatusError{Status: frame.StatusUnauthenticated, Message: name}
						}
						resp, err := next(ctx, req)
						see(name)
						return resp, err
					})
				}
			}
			s := serve(t, newServer(t, o), newService(t, rawKey, Raw("Info", func(ctx context.Context, body []byte) ([]byte, error) {
				derived, stop := context.WithCancel(ctx)
				defer stop()
				info := CallFrom(derived)
				_, timed := ctx.Deadline()
				kept <- derived
				return fmt.Appendf(nil, "%v %s %v %v %v %v %v", info.Key, info.Method, info.Codec, info.OneWay, info.Metadata, info.Peer.Port(), timed), nil
			})))
			c := dialRaw(t, s.Addr("port0"))
			meta := "\x00\x02\x00\x01k\x00\x02v1\x00\x01k\x00\x02v2"
			p := rawCall(60_000, 1, rawKey, "Info", "")
			p = append(p[:len(p)-2], meta...)
			c.send(rawFrame(1, 2, p))
			want := fmt.Sprintf("%s Info json false [{k v1} {k v2}] %d true", rawKey, c.LocalAddr().(*net.TCPAddr).Port)
			if got := c.expect(1, ok); got != want {
				t.Errorf("%v: %q, want %q", d, got, want)
			}
			testkit.Eventually(t, "the end of the context", func() bool { return s.Stats().Services[Key{Interface: "test", Version: "1"}].InFlight == 0 })
			if info := CallFrom(<-kept); info != nil {
				t.Errorf("%v: the call has ended, and its context knows %v", d, info)
			}
			if with {
				mu.Lock()
				got := strings.Join(seen, " ")
				mu.Unlock()
				if got != "aInfo bInfo b a" {
					t.Error(got)
				}
				p = append(p[:len(p)-len(meta)], "\x00\x01\x00\x04stop\x00\x01b"...)
				c.send(rawFrame(2, 2, p))
				if got := c.expect(2, 10); got != "b" {
					t.Error(got)
				}
			}
		}
	}
	if info := CallFrom(context.Background()); info != nil {
		t.Error(info)
	}
}

// TestInterceptorsOfTypedMethods: they see pointers, may change them, and are told when they pass on what is none.
func TestInterceptorsOfTypedMethods(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}, Interceptors: []Interceptor{
		func(ctx context.Context, call *CallInfo, req any, next func(context.Context, any) (any, error)) (any, error) {
			switch r := req.(type) {
			case *greeting:
				if r.Name == "wrong" {
					return next(ctx, 1)
				}
				r.Name += "ie"
			case []byte:
				return next(ctx, "text")
			}
			resp, err := next(ctx, req)
			if g, ok := resp.(*greeting); ok {
				g.Times = 7
			}
			return resp, err
		},
	}}), greeter(t, rawKey))
	c := dialRaw(t, s.Addr("port0"))
	c.json(1, rawKey, "Hello", `{"name":"Ann"}`)
	if got := c.expect(1, ok); got != `{"name":"Hello, Annie","times":7}` {
		t.Error(got)
	}
	c.json(2, rawKey, "Hello", `{"name":"wrong"}`)
	if got := c.expect(2, internalError); !strings.Contains(got, "another type: int, want *rpc.greeting") {
		t.Error(got)
	}
	c.json(3, rawKey, "Note", `{"name":"wrong"}`)
	c.expect(3, internalError)
	c.call(4, 0, rawKey, "Echo", "x")
	if got := c.expect(4, internalError); !strings.Contains(got, "another type: string, want []uint8") {
		t.Error(got)
	}
}

// TestEveryLimitIsTold: a limit that Tune sets is told as Accepts is.
func TestEveryLimitIsTold(t *testing.T) {
	s := newServer(t, ServerOptions{Ports: []PortOptions{{Name: "p", Tune: func(srv *eddy.Server) { srv.Admission.MaxPerIP = 1 }}}})
	addr := serve(t, s).Addr("p").String()
	dialEvents(t, addr)
	c := dialEvents(t, addr)
	c.expect(0, frame.StatusBusy, "max_per_ip")
	c.readAll()
}
