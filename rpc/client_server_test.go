package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// TestClientAndServer: every form of a method and every end of a call, between the package's own two sides.
func TestClientAndServer(t *testing.T) {
	entered, left := make(chan *CallInfo, 1), make(chan error, 1)
	noted := make(chan string, 1)
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, testKey.String(),
		Unary("Hello", func(_ context.Context, req *greeting) (*greeting, error) {
			if req.Name == "" {
				return nil, errors.New("nobody is there")
			}
			return &greeting{Name: "Hello, " + req.Name, Times: req.Times + 1}, nil
		}),
		Unary("Proto", func(_ context.Context, req *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
			return wrapperspb.String(req.Value + "!"), nil
		}),
		OneWay("Note", func(_ context.Context, req *greeting) error { noted <- req.Name; return nil }),
		Raw("Echo", func(_ context.Context, body []byte) ([]byte, error) { return body, nil }),
		Raw("Hang", func(ctx context.Context, _ []byte) ([]byte, error) {
			entered <- CallFrom(ctx)
			<-ctx.Done()
			left <- ctx.Err()
			return nil, ctx.Err()
		}),
	))
	addr := s.Addr("port0").String()
	cl := client(t, ClientOptions{Codec: CodecJSON}, addr)
	ctx := context.Background()
	if resp, err := Invoke[greeting](ctx, cl, testKey, "Hello", &greeting{Name: "Ann", Times: 1}); err != nil || *resp != (greeting{Name: "Hello, Ann", Times: 2}) {
		t.Errorf("%+v, %v", resp, err)
	}
	if resp, err := Invoke[wrapperspb.StringValue](ctx, cl, testKey, "Proto", wrapperspb.String("x"), CallCodec(CodecProtobuf)); err != nil || resp.Value != "x!" {
		t.Errorf("%v, %v", resp, err)
	}
	if got, err := invoke(ctx, cl, "Echo", "raw", CallCodec(CodecRaw)); got != "raw" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := Send(ctx, cl, testKey, "Note", &greeting{Name: "noted"}); err != nil {
		t.Error(err)
	}
	if n := <-noted; n != "noted" {
		t.Errorf("%q", n)
	}
	_, err := Invoke[greeting](ctx, cl, testKey, "Hello", &greeting{})
	if e := asError(t, err); !errors.Is(err, ErrApp) || e.Message != "nobody is there" || e.Service != testKey.String() {
		t.Errorf("%+v", e)
	}
	_, err = Invoke[greeting](ctx, cl, testKey, "Nothing", &greeting{})
	if !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	_, err = Invoke[greeting](ctx, cl, testKey, "Hello", "no greeting")
	if !errors.Is(err, ErrBadRequest) {
		t.Error(err)
	}
	for d, ran := 20*time.Millisecond, false; !ran; d *= 2 { // longer where the machine takes that long to begin it
		short, cancel := context.WithTimeout(ctx, d)
		_, err = invoke(short, cl, "Hang", "", CallCodec(CodecRaw))
		if cancel(); !errors.Is(err, ErrDeadline) || d > testkit.Patience {
			t.Fatalf("a call of %v: %v", d, err)
		}
		select {
		case <-entered:
			ran = true
			<-left // the deadline travels, or the cancellation does
		case <-time.After(d):
		}
	}
	ctx, giveUp := context.WithCancel(ctx)
	go func() {
		info := <-entered
		if v, ok := info.Metadata.Get("trace"); !ok || v != "7" || info.Key != testKey {
			t.Errorf("%+v", info)
		}
		giveUp()
	}()
	_, err = invoke(ctx, cl, "Hang", "", CallCodec(CodecRaw), CallMetadata(Pair{"trace", "7"}))
	if !errors.Is(err, ErrCanceled) {
		t.Error(err)
	}
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the method's context: %v", err)
	}
}

// ledger is a service that notes how often each number was executed.
type ledger struct {
	mu   sync.Mutex
	runs map[string]int
}

func (l *ledger) service(t testing.TB) *Service {
	return newService(t, testKey.String(), Raw("Book", func(_ context.Context, body []byte) ([]byte, error) {
		l.mu.Lock()
		l.runs[string(body)]++
		l.mu.Unlock()
		return body, nil
	}))
}

// keepBooking calls with numbers of its own until stop, and returns what became of them.
func keepBooking(t *testing.T, cl *Client, who int, stop chan struct{}, ok *atomic.Int64) map[string]error {
	ends := map[string]error{}
	for n := 0; ; n++ {
		select {
		case <-stop:
			return ends
		default:
		}
		number := fmt.Sprint(who, ".", n)
		got, err := invoke(context.Background(), cl, "Book", number)
		if err == nil && got != number {
			t.Errorf("%q, want %q", got, number)
		}
		ends[number] = err
		if err == nil {
			ok.Add(1)
		}
	}
}

// underLoad runs callers beside f and judges what became of their calls: those that succeeded were executed once, those that say they
// were not executed were not, the others once at most.
func underLoad(t *testing.T, l *ledger, cl *Client, f func(ok *atomic.Int64)) (failed int) {
	var ok atomic.Int64
	stop := make(chan struct{})
	all := make(chan map[string]error)
	const callers = 8
	for i := range callers {
		go func() { all <- keepBooking(t, cl, i, stop, &ok) }()
	}
	f(&ok)
	close(stop)
	ends := map[string]error{}
	for range callers {
		for n, err := range <-all {
			ends[n] = err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, err := range ends {
		runs := l.runs[n]
		switch {
		case err == nil && runs != 1:
			t.Errorf("%s succeeded and ran %d times", n, runs)
		case err != nil && asError(t, err).Executed == ExecutedNo && runs != 0:
			t.Errorf("%s ran %d times, and %v", n, runs, err)
		case runs > 1:
			t.Errorf("%s ran %d times", n, runs)
		}
		if err != nil {
			failed++
			if failed < 5 {
				t.Log(n, runs, err)
			}
		}
	}
	return failed
}

// TestRollingRestart: servers that drain and are replaced one after the other under load: not one call fails, and each is executed once.
func TestRollingRestart(t *testing.T) {
	l := &ledger{runs: map[string]int{}}
	start := func() *Server {
		return serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}, DrainGrace: testkit.Patience}), l.service(t)) // the client ends connections earlier
	}
	addr := func(s *Server) string { return s.Addr("port0").String() }
	servers := []*Server{start(), start()}
	cl := client(t, ClientOptions{}, addr(servers[0]), addr(servers[1]))
	testkit.Eventually(t, "the connections", func() bool { return cl.Stats().Connections == 2 })
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	failed := underLoad(t, l, cl, func(ok *atomic.Int64) {
		for i := range rounds {
			n := ok.Load()
			testkit.Eventually(t, "calls", func() bool { return ok.Load() > n+100 })
			next := start()
			cl.apply(discovery.Addrs(addr(servers[0]), addr(servers[1]), addr(next)))
			testkit.Eventually(t, "the new server", func() bool { return cl.Stats().Connections == 3 })
			old := servers[i%2]
			if _, err := old.Shutdown(testkit.Context(t)); err != nil {
				t.Error(err)
			}
			servers[i%2] = next
			cl.apply(discovery.Addrs(addr(servers[0]), addr(servers[1])))
		}
	})
	if failed > 0 {
		t.Errorf("%d calls failed", failed)
	}
	if st := cl.Stats(); st.GoAways == 0 {
		t.Errorf("%+v", st)
	}
}

// TestKilledServers: servers that are killed under load: no call is lost silently, none is executed twice, and none that says it was not
// executed was.
func TestKilledServers(t *testing.T) {
	l := &ledger{runs: map[string]int{}}
	start := func() *Server { return serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), l.service(t)) }
	first := start()
	cl := client(t, ClientOptions{ConnsPerAddr: 2}, first.Addr("port0").String())
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	underLoad(t, l, cl, func(ok *atomic.Int64) {
		for range rounds {
			n := ok.Load()
			testkit.Eventually(t, "calls", func() bool { return ok.Load() > n+100 })
			if err := first.Close(); err != nil {
				t.Error(err)
			}
			first = start()
			cl.apply(discovery.Addrs(first.Addr("port0").String()))
		}
	})
}
