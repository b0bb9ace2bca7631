package dubbo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	hessian2 "github.com/apache/dubbo-go-hessian2"
	"github.com/apache/dubbo-go-hessian2/java_exception"

	"dubbo.apache.org/dubbo-go/v3/client"
	"dubbo.apache.org/dubbo-go/v3/common/constant"
	"dubbo.apache.org/dubbo-go/v3/common/extension"
	"dubbo.apache.org/dubbo-go/v3/filter"
	"dubbo.apache.org/dubbo-go/v3/protocol"
	"dubbo.apache.org/dubbo-go/v3/protocol/base"
	"dubbo.apache.org/dubbo-go/v3/protocol/result"
	"dubbo.apache.org/dubbo-go/v3/protocol/triple/triple_protocol"
	"dubbo.apache.org/dubbo-go/v3/server"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/dubbo"
)

// User is a class on both sides.
type User struct {
	ID   int64 `hessian:"id"`
	Name string
	Tags []string
}

// JavaClassName implements hessian2.POJO.
func (User) JavaClassName() string { return "org.example.User" }

func init() { dubbo.RegisterClass("org.example.User", User{}) }

const userProvider = "org.example.UserProvider"

// Users is the service without a .proto file, on either side.
type Users struct{}

// Reference implements dubbo-go's way to name a service.
func (*Users) Reference() string { return userProvider }

// GetUser returns a user of that number, an error without one.
func (*Users) GetUser(_ context.Context, id int64, name string) (*User, error) {
	if id == 0 {
		return nil, errors.New("nobody has no number")
	}
	return &User{id, name, []string{"a", "b"}}, nil
}

// Sum returns the sum of a list.
func (*Users) Sum(_ context.Context, list []int64) (sum int64, err error) {
	for _, n := range list {
		sum += n
	}
	return sum, nil
}

// Tag attaches a word to its result, which is null.
func (*Users) Tag(ctx context.Context, word string) (*User, error) {
	return nil, rpc.SetTrailer(ctx, rpc.Pair{Key: "word", Value: word})
}

// TagError attaches a word to its error.
func (*Users) TagError(ctx context.Context, word string) (*User, error) {
	return nil, errors.Join(rpc.SetTrailer(ctx, rpc.Pair{Key: "word", Value: word}), errors.New("tagged"))
}

// notes are the words of Note.
var notes = make(chan string, 1)

// Note passes a word on.
func (*Users) Note(_ context.Context, word string) (*User, error) {
	notes <- word
	return nil, nil
}

// Names returns how many names there are. dubbo-go's server has no way to make such a map; its client has.
func (*Users) Names(_ context.Context, names map[string]string) (int64, error) {
	return int64(len(names)), nil
}

// usersAt serves Users and returns the address.
func usersAt(t *testing.T) string {
	t.Helper()
	return serve(t, func(srv *rpc.Server) error {
		svc, err := dubbo.NewService(rpc.Key{Interface: userProvider}, new(Users), dubbo.Limits{})
		if err != nil {
			return err
		}
		return srv.Register(svc)
	})
}

// dialUsers returns dubbo-go's client of Users at a URL.
func dialUsers(t *testing.T, url string, opts ...client.ReferenceOption) *client.Connection {
	t.Helper()
	return dial(t, url, new(Users), opts...)
}

// dial returns dubbo-go's client of a service without a .proto file at a URL.
func dial(t *testing.T, url string, service any, opts ...client.ReferenceOption) *client.Connection {
	t.Helper()
	cl, err := client.NewClient(client.WithClientURL(url))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := cl.NewService(service, append(opts, client.WithSerialization(constant.Hessian2Serialization))...)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// callUsers makes the calls that succeed.
func callUsers(ctx context.Context, t *testing.T, conn *client.Connection) {
	t.Helper()
	var u User
	if err := conn.CallUnary(ctx, []any{int64(7), "Ann Ünal"}, &u, "GetUser"); err != nil || fmt.Sprint(u) != "{7 Ann Ünal [a b]}" {
		t.Errorf("%v, %v", u, err)
	}
	var sum int64
	if err := conn.CallUnary(ctx, []any{[]int64{1, 2, 3}}, &sum, "Sum"); err != nil || sum != 6 {
		t.Errorf("%d, %v", sum, err)
	}
	if err := conn.CallUnary(ctx, []any{map[string]string{"a": "b"}}, &sum, "Names"); err != nil || sum != 1 {
		t.Errorf("%d, %v", sum, err)
	}
}

// TestDubboGoClientHessian: dubbo-go's client calls a service of ours that has no .proto file.
func TestDubboGoClientHessian(t *testing.T) {
	conn := dialUsers(t, "tri://"+usersAt(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	callUsers(ctx, t, conn)
	err := conn.CallUnary(ctx, []any{int64(0), ""}, new(User), "GetUser")
	if triple_protocol.CodeOf(err) != triple_protocol.CodeUnknown {
		t.Errorf("an error: %v", err)
	}
	err = conn.CallUnary(ctx, []any{"x", ""}, new(User), "GetUser")
	if triple_protocol.CodeOf(err) != triple_protocol.CodeInvalidArgument {
		t.Errorf("a wrong argument: %v", err)
	}
}

// TestDubboGoClientProtocol: dubbo-go's client calls the same service by the dubbo protocol.
func TestDubboGoClientProtocol(t *testing.T) {
	addr := usersAt(t)
	conn := dialUsers(t, "dubbo://"+addr, client.WithProtocolDubbo())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	callUsers(ctx, t, conn)
	callGeneric(ctx, t, addr)
	callTagged(ctx, t, addr)
	var said string
	if err := conn.CallUnary(ctx, []any{"OK"}, &said, "$echo"); err != nil || said != "OK" {
		t.Errorf("$echo: %q, %v", said, err)
	}
	for _, c := range []struct {
		args   []any
		method string
		text   string
	}{
		{[]any{int64(0), ""}, "GetUser", "nobody has no number"},
		{[]any{"x", ""}, "GetUser", "argument 1: a string is no int64"},
		{[]any{}, "Nothing", "no method"},
	} {
		if err := conn.CallUnary(ctx, c.args, new(User), c.method); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", c.method, err, c.text)
		}
	}
}

// serveUsers starts dubbo-go's server of Users and returns its address.
func serveUsers(t *testing.T, by protocol.Option) string {
	t.Helper()
	addr, port := freePort(t)
	srv, err := server.NewServer(server.WithServerProtocol(by, protocol.WithIp("127.0.0.1"), protocol.WithPort(port)))
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.RegisterService(new(Users), server.WithSerialization(constant.Hessian2Serialization)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve() }()
	return addr
}

// callOurs makes the calls of our client.
func callOurs(t *testing.T, cl rpc.Caller) (failed error) {
	t.Helper()
	key := rpc.Key{Interface: userProvider}
	var u *User
	var err error
	awaitServer(func() error {
		u, err = dubbo.Invoke[*User](t.Context(), cl, key, "GetUser", []any{int64(7), "Ann Ünal"})
		return err
	})
	if err != nil || fmt.Sprint(*u) != "{7 Ann Ünal [a b]}" {
		t.Fatalf("%v, %v", u, err)
	}
	if sum, err := dubbo.Invoke[int64](t.Context(), cl, key, "Sum", []any{[]int64{1, 2, 3}}); err != nil || sum != 6 {
		t.Errorf("%d, %v", sum, err)
	}
	_, failed = dubbo.Invoke[*User](t.Context(), cl, key, "GetUser", []any{int64(0), ""})
	return failed
}

// TestDubboGoServerHessian: our client calls a service of dubbo-go that has no .proto file.
func TestDubboGoServerHessian(t *testing.T) {
	addr := serveUsers(t, protocol.WithTriple())
	cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + addr}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	err = callOurs(t, cl)
	if st, ok := errors.AsType[*rpc.Status](err); !ok || st.Code != rpc.CodeUnknown || st.Message != "nobody has no number" {
		t.Errorf("an error: %v", err)
	}
	callOneWay(t, cl)
}

// callOneWay: our client makes a one-way call at dubbo-go's server.
func callOneWay(t *testing.T, cl rpc.Caller) {
	t.Helper()
	if err := dubbo.Send(t.Context(), cl, rpc.Key{Interface: userProvider}, "Note", []any{"hello"}); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Receive(t, "the note", notes); got != "hello" {
		t.Errorf("a note %q", got)
	}
}

// TestDubboGoServerProtocol: our client calls the same service by the dubbo protocol.
func TestDubboGoServerProtocol(t *testing.T) {
	addr := serveUsers(t, protocol.WithDubbo())
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{addr}, Timeout: time.Minute, WaitForReady: true, Front: dubbo.ClientFront(dubbo.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	if err := callOurs(t, cl); !errors.Is(err, rpc.ErrApp) || !strings.Contains(err.Error(), "java.lang.Throwable: nobody has no number") {
		t.Errorf("an error: %v", err)
	}
	callTheirsGeneric(t, cl)
	callOneWay(t, cl)
}

// callGeneric: dubbo-go's client calls ours without its classes, by generic calls that it makes itself and by those that its filter makes, and asks $echo
// whether the service is there. Its client of Triple has neither.
func callGeneric(ctx context.Context, t *testing.T, addr string) {
	t.Helper()
	conn := dialUsers(t, "dubbo://"+addr, client.WithProtocolDubbo(), client.WithGeneric())
	var u map[any]any
	err := conn.CallUnary(ctx, []any{"GetUser", []string{"long", "java.lang.String"}, []hessian2.Object{int64(7), "Ann"}}, &u, "$invoke")
	if err != nil || fmt.Sprint(u) != "map[class:org.example.User id:7 name:Ann tags:[a b]]" {
		t.Errorf("%v, %v", u, err)
	}
	u = nil
	if err := conn.CallUnary(ctx, []any{int64(7), "Ann"}, &u, "GetUser"); err != nil || u["name"] != "Ann" {
		t.Errorf("by its filter: %v, %v", u, err)
	}
	err = conn.CallUnary(ctx, []any{"Nothing", []string{}, []hessian2.Object{}}, &u, "$invoke")
	if e, ok := errors.AsType[*java_exception.DubboGenericException](err); !ok || e.ExceptionClass != "java.lang.RuntimeException" || !strings.Contains(e.ExceptionMessage, "no method") || e.DetailMessage != e.ExceptionClass+": "+e.ExceptionMessage {
		t.Errorf("no such method: %T %v", err, err)
	}
}

// resultFilter is a filter of dubbo-go's client that keeps the attachments of results.
type resultFilter struct{ filter.Filter }

var resultAttachments = make(chan map[string]any, 100)

func init() { extension.SetFilter("results", func() filter.Filter { return resultFilter{} }) }

func (resultFilter) Invoke(ctx context.Context, invoker base.Invoker, inv base.Invocation) result.Result {
	return invoker.Invoke(ctx, inv)
}

func (resultFilter) OnResponse(_ context.Context, r result.Result, _ base.Invoker, _ base.Invocation) result.Result {
	resultAttachments <- r.Attachments()
	return r
}

// callTagged: dubbo-go's client is given the attachments of a result, and an exception that has some.
func callTagged(ctx context.Context, t *testing.T, addr string) {
	t.Helper()
	conn := dialUsers(t, "dubbo://"+addr, client.WithProtocolDubbo(), client.WithFilter("results"))
	var u *User
	if err := conn.CallUnary(ctx, []any{"hello"}, &u, "Tag"); err != nil || u != nil {
		t.Errorf("%v, %v", u, err)
	}
	if got := <-resultAttachments; got["word"] != "hello" {
		t.Errorf("the attachments of a result: %v", got)
	}
	if err := conn.CallUnary(ctx, []any{"bye"}, &u, "TagError"); err == nil || !strings.Contains(err.Error(), "tagged") {
		t.Errorf("an error with attachments: %v", err)
	}
	<-resultAttachments // none: dubbo-go's client reads those of an exception, and passes on the exception alone
}

// callTheirsGeneric: our client makes a generic call at dubbo-go's server and asks its $echo.
func callTheirsGeneric(t *testing.T, cl rpc.Caller) {
	t.Helper()
	key := rpc.Key{Interface: userProvider}
	u, err := dubbo.InvokeGeneric[map[string]any](t.Context(), cl, key, "GetUser", []string{"long", "java.lang.String"}, []any{int64(7), "Ann"})
	if err != nil || u["name"] != "Ann" || u["class"] != "org.example.User" {
		t.Errorf("%v, %v", u, err)
	}
	var attached rpc.Metadata // dubbo-go's server returns those of the call
	said, err := dubbo.Invoke[string](t.Context(), cl, key, "$echo", []any{"OK"}, rpc.CallMetadata(rpc.Pair{Key: "word", Value: "hello"}), rpc.CallTrailer(&attached))
	if word, _ := attached.Get("word"); err != nil || said != "OK" || word != "hello" {
		t.Errorf("%q, %v with %v", said, err, attached)
	}
	attached = nil
	_, err = dubbo.Invoke[*User](t.Context(), cl, key, "GetUser", []any{int64(0), ""}, rpc.CallMetadata(rpc.Pair{Key: "word", Value: "bye"}), rpc.CallTrailer(&attached))
	if word, _ := attached.Get("word"); !errors.Is(err, rpc.ErrApp) || word != "bye" {
		t.Errorf("%v with %v", err, attached)
	}
}
