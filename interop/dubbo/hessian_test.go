package dubbo

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"dubbo.apache.org/dubbo-go/v3/client"
	"dubbo.apache.org/dubbo-go/v3/common/constant"
	"dubbo.apache.org/dubbo-go/v3/protocol"
	"dubbo.apache.org/dubbo-go/v3/protocol/triple/triple_protocol"
	"dubbo.apache.org/dubbo-go/v3/server"

	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/dubbo"
)

// User is a class on both sides.
type User struct {
	ID   int64
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

// Names returns how many names there are. dubbo-go's server has no way to make such a map; its client has.
func (*Users) Names(_ context.Context, names map[string]string) (int64, error) {
	return int64(len(names)), nil
}

// TestDubboGoClientHessian: dubbo-go's client calls a service of ours that has no .proto file.
func TestDubboGoClientHessian(t *testing.T) {
	addr := serve(t, func(srv *rpc.Server) error {
		svc, err := dubbo.NewService(rpc.Key{Interface: userProvider}, new(Users), dubbo.Limits{})
		if err != nil {
			return err
		}
		return srv.Register(svc)
	})
	cl, err := client.NewClient(client.WithClientURL("tri://" + addr))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := cl.NewService(new(Users), client.WithSerialization(constant.Hessian2Serialization))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
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
	err = conn.CallUnary(ctx, []any{int64(0), ""}, new(User), "GetUser")
	if triple_protocol.CodeOf(err) != triple_protocol.CodeUnknown {
		t.Errorf("an error: %v", err)
	}
	err = conn.CallUnary(ctx, []any{"x", ""}, new(User), "GetUser")
	if triple_protocol.CodeOf(err) != triple_protocol.CodeInvalidArgument {
		t.Errorf("a wrong argument: %v", err)
	}
}

// TestDubboGoServerHessian: our client calls a service of dubbo-go that has no .proto file.
func TestDubboGoServerHessian(t *testing.T) {
	addr, port := freePort(t)
	srv, err := server.NewServer(server.WithServerProtocol(protocol.WithTriple(), protocol.WithIp("127.0.0.1"), protocol.WithPort(port)))
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.RegisterService(new(Users), server.WithSerialization(constant.Hessian2Serialization)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve() }()
	cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + addr}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	key := rpc.Key{Interface: userProvider}
	var u *User
	awaitServer(func() error {
		u, err = dubbo.Invoke[*User](t.Context(), cl, key, "GetUser", []any{int64(7), "Ann Ünal"})
		return err
	})
	if err != nil || fmt.Sprint(*u) != "{7 Ann Ünal [a b]}" {
		t.Errorf("%v, %v", u, err)
	}
	if sum, err := dubbo.Invoke[int64](t.Context(), cl, key, "Sum", []any{[]int64{1, 2, 3}}); err != nil || sum != 6 {
		t.Errorf("%d, %v", sum, err)
	}
	_, err = dubbo.Invoke[*User](t.Context(), cl, key, "GetUser", []any{int64(0), ""})
	if st, ok := errors.AsType[*rpc.Status](err); !ok || st.Code != rpc.CodeUnknown || st.Message != "nobody has no number" {
		t.Errorf("an error: %v", err)
	}
}
