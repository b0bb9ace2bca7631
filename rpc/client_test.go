package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/pending"
)

// call makes a raw call and returns its body.
func invoke(ctx context.Context, cl *Client, method, body string, opts ...CallOption) (string, error) {
	resp, err := Invoke[[]byte](ctx, cl, testKey, method, text(body), opts...)
	if err != nil {
		return "", err
	}
	return string(*resp), nil
}

func asError(t testing.TB, err error) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%v is a %T, not an *Error", err, err)
	}
	return e
}

// TestRequestOnTheWire: what a call sends, byte by byte.
func TestRequestOnTheWire(t *testing.T) {
	got := make(chan *request, 10)
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			got <- q
			c.echo(q)
		}
	})
	cl := client(t, ClientOptions{}, s.addr())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	for _, x := range []struct {
		ctx    context.Context
		opts   []CallOption
		lo, hi uint32
		want   string
	}{
		{context.Background(), nil, 1, uint32(testkit.Patience.Milliseconds()), "\x00\x00\x00\x0fg/demo.Echo:1.0\x00\x04Echo\x00\x00body"},
		{context.Background(), []CallOption{CallTimeout(-1)}, 0, 0, "\x00\x00\x00\x0fg/demo.Echo:1.0\x00\x04Echo\x00\x00body"},
		{ctx, []CallOption{CallTimeout(-1)}, 1_000_000, 1_800_000, "\x00\x00\x00\x0fg/demo.Echo:1.0\x00\x04Echo\x00\x00body"},
		{ctx, []CallOption{CallTimeout(time.Hour)}, 1_000_000, 1_800_000, "\x00\x00\x00\x0fg/demo.Echo:1.0\x00\x04Echo\x00\x00body"},
		{ctx, []CallOption{CallMetadata(Pair{"k", "vv"}, Pair{"", ""})}, 1, uint32(testkit.Patience.Milliseconds()), "\x00\x00\x00\x0fg/demo.Echo:1.0\x00\x04Echo\x00\x02\x00\x01k\x00\x02vv\x00\x00\x00\x00body"},
	} {
		resp, err := invoke(x.ctx, cl, "Echo", "body", x.opts...)
		if err != nil || resp != "body" {
			t.Fatalf("%q, %v", resp, err)
		}
		q := <-got
		if q.op != 2 || q.id == 0 || q.payload[4:] != x.want || q.timeout < x.lo || q.timeout > x.hi {
			t.Errorf("op %d, id %d, timeout %d from %d to %d\n%q, want\n%q", q.op, q.id, q.timeout, x.lo, x.hi, q.payload[4:], x.want)
		}
	}
	type point struct{ X, Y int }
	p, err := Invoke[point](ctx, cl, testKey, "Echo", point{1, 2}, CallCodec(CodecJSON))
	if err != nil || *p != (point{1, 2}) {
		t.Errorf("%v, %v", p, err)
	}
	if q := <-got; q.payload[4] != 1 || q.body != `{"X":1,"Y":2}` {
		t.Errorf("%q", q.payload)
	}
	if err := Send(ctx, cl, testKey, "Log", text("line")); err != nil {
		t.Fatal(err)
	}
	if q := <-got; q.op != 3 || q.id == 0 || q.body != "line" || q.method != "Log" {
		t.Errorf("%+v", q)
	}
}

// TestStatuses: what each status becomes; none but UNAVAILABLE is tried again, BUSY least of all.
func TestStatuses(t *testing.T) {
	var asked atomic.Int64
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			asked.Add(1)
			var status byte
			fmt.Sscan(q.body, &status)
			c.answer(q.id, status, rawError(1500, "as asked"))
		}
	})
	cl := client(t, ClientOptions{}, s.addr())
	for _, x := range []struct {
		status   int
		is       error
		also     error
		executed Executed
	}{
		{1, ErrBadRequest, nil, ExecutedMaybe},
		{2, ErrNotFound, nil, ExecutedMaybe},
		{3, ErrApp, nil, ExecutedMaybe},
		{4, ErrInternal, nil, ExecutedMaybe},
		{5, ErrBusy, nil, ExecutedNo},
		{6, ErrDeadline, context.DeadlineExceeded, ExecutedMaybe},
		{7, ErrCanceled, context.Canceled, ExecutedMaybe},
		{8, ErrUnavailable, nil, ExecutedNo},
		{9, ErrTooLarge, nil, ExecutedMaybe},
		{10, ErrUnauthenticated, nil, ExecutedMaybe},
		{64, ErrProtocol, nil, ExecutedMaybe},
	} {
		asked.Store(0)
		_, err := invoke(context.Background(), cl, "Status", fmt.Sprint(x.status))
		e := asError(t, err)
		if !errors.Is(err, x.is) || x.also != nil && !errors.Is(err, x.also) || e.Executed != x.executed || e.RetryAfter != 1500*time.Millisecond || e.Message != "as asked" || e.Method != "Status" {
			t.Errorf("status %d: %+v", x.status, e)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("status %d: asked %d times", x.status, n)
		}
	}
}

// TestDeadlines: an expired call is not sent; one that expires while it waits ends at once, its late response is counted and
// dropped, and the connection goes on.
func TestDeadlines(t *testing.T) {
	held := make(chan func(), 1)
	var asked atomic.Int64
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			asked.Add(1)
			if q.method == "Hold" {
				held <- func() { c.echo(q) }
				continue
			}
			c.echo(q)
		}
	})
	cl := client(t, ClientOptions{}, s.addr())
	past, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := invoke(past, cl, "Echo", "")
	if e := asError(t, err); !errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) || e.Executed != ExecutedNo {
		t.Errorf("%+v", e)
	}
	if f := InvokeAsync[[]byte](past, cl, testKey, "Echo", text("")); f.Cancel() {
		t.Error("an ended future was cancelled")
	} else if _, err := f.Wait(context.Background()); !errors.Is(err, ErrDeadline) {
		t.Error(err)
	}
	if err := Send(past, cl, testKey, "Echo", text("")); !errors.Is(err, ErrDeadline) {
		t.Error(err)
	}
	for _, way := range []func(d time.Duration) error{
		func(d time.Duration) error {
			_, err := invoke(context.Background(), cl, "Hold", "", CallTimeout(d))
			return err
		},
		func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			_, err := invoke(ctx, cl, "Hold", "")
			return err
		},
		func(d time.Duration) error {
			_, err := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""), CallTimeout(d)).Wait(context.Background())
			return err
		},
	} {
		late := cl.Stats().Late
		for d := 5 * time.Millisecond; ; d *= 2 { // longer where the machine takes that long to send it
			err := way(d)
			e := asError(t, err)
			if !errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%+v", e)
			}
			if e.Executed != ExecutedNo {
				break
			}
		}
		testkit.Receive(t, "the request", held)()
		testkit.Eventually(t, "the late response", func() bool { return cl.Stats().Late == late+1 })
	}
	if got, err := invoke(context.Background(), cl, "Echo", "on"); got != "on" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if st := cl.Stats(); s.seen.Load() != 1 || st.Expired < 3 {
		t.Errorf("%d connections, %+v", s.seen.Load(), st)
	}
}

// TestCancel: the caller returns at once, the server is told which request it was, and the response that comes all the
// same is dropped.
func TestCancel(t *testing.T) {
	held, told := make(chan *request, 1), make(chan uint64, 1)
	s := newStub(t, func(c *stubConn) {
		var first *request
		for q := c.next(); q != nil; q = c.next() {
			switch {
			case q.op == 4:
				told <- q.id
				c.echo(first)
			case q.method == "Hold":
				first = q
				held <- q
			default:
				c.echo(q)
			}
		}
	})
	cl := client(t, ClientOptions{}, s.addr())
	boom := errors.New("boom")
	for i, way := range []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := invoke(ctx, cl, "Hold", ""); return err },
		func(ctx context.Context) error {
			_, err := InvokeAsync[[]byte](ctx, cl, testKey, "Hold", text("")).Wait(context.Background())
			return err
		},
		func(ctx context.Context) error {
			f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""))
			<-ctx.Done()
			if !f.Cancel() || f.Cancel() {
				t.Error("not cancelled once")
			}
			_, err := f.Wait(context.Background())
			return err
		},
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		id := make(chan uint64, 1)
		go func() { q := <-held; cancel(boom); id <- q.id }()
		err := way(ctx)
		if e := asError(t, err); !errors.Is(err, ErrCanceled) || !errors.Is(err, context.Canceled) || i < 2 && !errors.Is(err, boom) || e.Executed != ExecutedMaybe {
			t.Errorf("%+v", e)
		}
		if want, got := <-id, <-told; got != want {
			t.Errorf("cancelled %d, want %d", got, want)
		}
		testkit.Eventually(t, "the late response", func() bool { return cl.Stats().Late == uint64(i+1) })
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := invoke(canceled, cl, "Echo", ""); !errors.Is(err, ErrCanceled) || asError(t, err).Executed != ExecutedNo {
		t.Error(err)
	}
	if got, err := invoke(context.Background(), cl, "Echo", "on"); got != "on" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestBadResponses: each ends its connection with a protocol error and fails the calls on it; the next call has a new one.
func TestBadResponses(t *testing.T) {
	type bad func(c *stubConn, id uint64)
	raw := func(b []byte) bad { return func(c *stubConn, _ uint64) { c.Write(b) } }
	respond := func(id func(uint64) uint64, status byte, payload string) bad {
		return func(c *stubConn, q uint64) { c.answer(id(q), status, payload) }
	}
	same := func(id uint64) uint64 { return id }
	zero := func(uint64) uint64 { return 0 }
	for name, x := range map[string]struct {
		send bad
		is   error
	}{
		"garbage":            {raw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")), ErrProtocol},
		"version":            {raw([]byte{0xED, 0xD1, 2}), ErrProtocol},
		"too long":           {raw([]byte{0xED, 0xD1, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0xff, 0xff, 0xff, 0xff}), ErrProtocol},
		"too long, its id":   {func(c *stubConn, id uint64) { b := rawResponse(id, 0, ""); b[12] = 0x7f; c.Write(b) }, ErrTooLarge},
		"unknown status":     {respond(same, 11, rawError(0, "")), ErrProtocol},
		"status 255":         {respond(same, 255, rawError(0, "")), ErrProtocol},
		"never made":         {respond(func(id uint64) uint64 { return id + 1<<32 }, 0, ""), ErrProtocol},
		"never such a slot":  {respond(func(id uint64) uint64 { return id + 100 }, 0, ""), ErrProtocol},
		"OK for nobody":      {respond(zero, 0, ""), ErrProtocol},
		"error for nobody":   {respond(zero, 64, rawError(0, "bye")), ErrProtocol},
		"malformed error":    {respond(same, 5, "x"), ErrProtocol},
		"wrong length":       {respond(same, 5, rawError(0, "abc")[:7]), ErrProtocol},
		"no UTF-8":           {respond(same, 5, rawError(0, "\xff")), ErrProtocol},
		"GOAWAY with an id":  {respond(same, 65, rawError(0, "")), ErrProtocol},
		"malformed GOAWAY":   {respond(zero, 65, ""), ErrProtocol},
		"refused connection": {respond(zero, 5, rawError(1, "too many connections")), ErrConnection},
		"cut":                {func(c *stubConn, _ uint64) { c.Close() }, ErrConnection},
		"cut in a response":  {func(c *stubConn, id uint64) { c.Write(rawResponse(id, 0, "body")[:18]); c.Close() }, ErrConnection},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t, func(c *stubConn) {
				if c.n > 1 {
					echoes(c)
					return
				}
				x.send(c, c.next().id)
				c.next() // until the client ends it
			})
			cl := client(t, ClientOptions{WaitForReady: true}, s.addr())
			_, err := invoke(context.Background(), cl, "Echo", "x")
			if e := asError(t, err); !errors.Is(err, x.is) || e.Executed != ExecutedMaybe {
				t.Errorf("%+v", e)
			}
			if got, err := invoke(context.Background(), cl, "Echo", "again"); got != "again" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestLimits: each bound of the client refuses with an error that names it, and nothing is sent.
func TestLimits(t *testing.T) {
	var asked atomic.Int64
	s := newStub(t, func(c *stubConn) {
		for c.next() != nil {
			asked.Add(1)
		}
	})
	check := func(t *testing.T, err error, is error, option string) {
		t.Helper()
		if e := asError(t, err); !errors.Is(err, is) || e.Executed != ExecutedNo || !strings.Contains(e.Error(), option) {
			t.Errorf("%+v", e)
		}
	}
	t.Run("MaxPending", func(t *testing.T) {
		cl := client(t, ClientOptions{MaxPending: 3}, s.addr())
		for range 3 {
			InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""))
		}
		testkit.Eventually(t, "all to be on the connection", func() bool {
			wires := cl.routes.Load().all
			return len(wires) == 1 && wires[0].load.Load() == 3
		})
		_, err := invoke(context.Background(), cl, "Hold", "", WaitForReady(false))
		check(t, err, ErrClientFull, "limit 3 (ClientOptions.MaxPending)")
	})
	t.Run("waiting", func(t *testing.T) {
		gate := make(chan struct{})
		cl := client(t, ClientOptions{MaxPending: 2, Resolver: discovery.Poll(0, func(ctx context.Context) ([]discovery.Instance, error) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return nil, nil
		})})
		defer close(gate)
		for range 2 {
			InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""))
		}
		_, err := invoke(context.Background(), cl, "Hold", "")
		check(t, err, ErrClientFull, "limit 2 (ClientOptions.MaxPending)")
	})
	t.Run("MaxAsync", func(t *testing.T) {
		cl := client(t, ClientOptions{MaxAsync: 2}, s.addr())
		for range 2 {
			InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""))
		}
		_, err := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text("")).Wait(context.Background())
		check(t, err, ErrClientFull, "limit 2 (ClientOptions.MaxAsync)")
	})
	t.Run("MaxPayload", func(t *testing.T) {
		cl := client(t, ClientOptions{MaxPayload: 1000}, s.addr())
		_, err := invoke(context.Background(), cl, "Echo", strings.Repeat("x", 1000))
		check(t, err, ErrTooLarge, "limit 1000 (ClientOptions.MaxPayload)")
	})
	t.Run("MaxQueued", func(t *testing.T) {
		cl := client(t, ClientOptions{MaxQueued: 1 << 20, MaxWaiting: 900_000, WaitForReady: true}, s.addr())
		crowd(t, cl)
		body := strings.Repeat("x", 600_000)
		_, err := invoke(context.Background(), cl, "Hold", body, WaitForReady(false))
		check(t, err, ErrClientFull, "limit 1048576 (ClientOptions.MaxQueued)")
		check(t, err, ErrBusy, "")
		err = Send(context.Background(), cl, testKey, "Hold", text(body))
		check(t, err, ErrClientFull, "limit 900000 (ClientOptions.MaxWaiting)")
		if n := cl.Stats().Full; n != 2 {
			t.Errorf("%d refused, want 2", n)
		}
	})
	if n := asked.Load(); n > 5 {
		t.Errorf("%d requests were sent, at most 5 may have been", n)
	}
}

// TestTenThousandCalls on one connection, all in flight at once, each with its own response.
func TestTenThousandCalls(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 2_000
	}
	s := newStub(t, func(c *stubConn) {
		var all []*request
		for q := c.next(); q != nil; q = c.next() {
			all = append(all, q)
			if len(all) < n {
				continue
			}
			for i := len(all) - 1; i >= 0; i-- { // the last one first
				c.echo(all[i])
			}
			all = nil
		}
	})
	cl := client(t, ClientOptions{}, s.addr())
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			want := fmt.Sprint("body ", i)
			if got, err := invoke(context.Background(), cl, "Echo", want); got != want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		}()
	}
	wg.Wait()
	if k := s.seen.Load(); k != 1 {
		t.Errorf("%d connections", k)
	}
}

// TestBodies of all sizes arrive whole, also those that are given away by reference, while others are small.
func TestBodies(t *testing.T) {
	s := newStub(t, echoes)
	cl := client(t, ClientOptions{}, s.addr())
	var wg sync.WaitGroup
	for i, n := range []int{0, 1, 100, 1000, keptBody - 100, keptBody, keptBody + 1, 100_000, sendWindow, sendWindow + 1, 700_000, 1_000_000} {
		for range 3 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				want := strings.Repeat(string(rune('a'+i)), n)
				if got, err := invoke(context.Background(), cl, "Echo", want); got != want || err != nil {
					t.Errorf("%d bytes: %d came back, %v", n, len(got), err)
				}
			}()
		}
	}
	wg.Wait()
}

// onClock returns a client that is connected and whose loop's time is the clock's.
func onClock(t *testing.T, o ClientOptions, addr string) (*Client, *enginetest.Clock) {
	t.Helper()
	o.Group = &eddy.Group{Loops: 1}
	enginetest.RelaxGroup(o.Group)
	clock := enginetest.NewClock(t, o.Group)
	t.Cleanup(func() { _ = o.Group.Close() }) // after the client
	cl := client(t, o, addr)
	testkit.Eventually(t, "the connection", func() bool { return cl.Stats().Connections == 1 })
	return cl, clock
}

// beat is a little more than a heartbeat of a minute: loops look for what is due every 10 ms.
const beat = time.Minute + 20*time.Millisecond

// TestHeartbeat: a connection that is silent is asked, once each time, and stays when it answers; one whose server does not answer is
// given up after three times, and made again.
func TestHeartbeat(t *testing.T) {
	pings := make(chan struct{}, 1)
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			c.echo(q)
			if q.op == 0 && q.id != 0 && q.payload == "" {
				pings <- struct{}{}
			}
		}
	})
	cl, clock := onClock(t, ClientOptions{Heartbeat: time.Minute}, s.addr())
	for n := range uint64(deadAfter + 3) {
		clock.Advance(beat)
		testkit.Receive(t, "a PING that was answered", pings)
		clock.Advance(0)    // the answer is heard
		clock.Advance(beat) // so there is none
		if st := cl.Stats(); st.Pings != n+1 || st.Lost != 0 {
			t.Fatalf("after %d answers: %+v", n+1, st)
		}
	}

	dead := newStub(t, func(c *stubConn) {
		for c.next() != nil {
		}
	})
	cl, clock = onClock(t, ClientOptions{Heartbeat: time.Minute}, dead.addr())
	for n := range uint64(deadAfter - 1) {
		clock.Advance(beat)
		if st := cl.Stats(); st.Pings != n+1 || st.Lost != 0 {
			t.Fatalf("after %d minutes without an answer: %+v", n+1, st)
		}
	}
	clock.Advance(beat)
	testkit.Eventually(t, "the second connection", func() bool { return dead.seen.Load() == 2 })
	if st := cl.Stats(); st.Lost != 1 {
		t.Errorf("%+v", st)
	}
}

// TestLongestTimes: a call whose time is as long as a duration can be is made, and a heartbeat that rare asks nobody.
func TestLongestTimes(t *testing.T) {
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			c.echo(q)
		}
	})
	cl, clock := onClock(t, ClientOptions{Heartbeat: math.MaxInt64, Timeout: math.MaxInt64, DialTimeout: math.MaxInt64}, s.addr())
	clock.Advance(1000 * time.Hour)
	if st := cl.Stats(); st.Pings != 0 || st.Lost != 0 {
		t.Errorf("%+v", st)
	}
	never, cancel := context.WithDeadline(context.Background(), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	defer cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		opts []CallOption
	}{
		"ClientOptions.Timeout":     {context.Background(), nil},
		"CallTimeout":               {context.Background(), []CallOption{CallTimeout(math.MaxInt64)}},
		"a context's deadline":      {never, []CallOption{CallTimeout(-1)}},
		"a context's and a timeout": {never, []CallOption{CallTimeout(math.MaxInt64)}},
	} {
		if got, err := invoke(c.ctx, cl, "Echo", "x", c.opts...); got != "x" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestHalfOpen: a call on a connection whose server is gone without a word ends with it.
func TestHalfOpen(t *testing.T) {
	asked := make(chan struct{}, deadAfter+1)
	s := newStub(t, func(c *stubConn) {
		for c.next() != nil {
			asked <- struct{}{}
		}
	})
	cl, clock := onClock(t, ClientOptions{Heartbeat: time.Minute, Timeout: -1}, s.addr())
	f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("x"))
	testkit.Receive(t, "the call", asked)
	clock.Pass(deadAfter*beat, beat)
	_, err := f.Wait(context.Background())
	if e := asError(t, err); !errors.Is(err, ErrConnection) || e.Executed != ExecutedMaybe || !strings.Contains(err.Error(), "not a byte") {
		t.Errorf("%+v", e)
	}
}

// TestOptions: what makes no sense is refused by name.
func TestClientOptions(t *testing.T) {
	for want, o := range map[string]ClientOptions{
		"Addrs and Resolver are empty":          {},
		"both set":                              {Addrs: []string{"a:1"}, Resolver: discovery.Static(discovery.Addrs("a:1")...)},
		"ConnsPerAddr is -1":                    {Addrs: []string{"a:1"}, ConnsPerAddr: -1},
		"MaxPending is 16777217":                {Addrs: []string{"a:1"}, MaxPending: pending.MaxSlots + 1},
		"MaxQueued is -2":                       {Addrs: []string{"a:1"}, MaxQueued: -2},
		"MaxWaiting is -3":                      {Addrs: []string{"a:1"}, MaxWaiting: -3},
		"MaxAsync is -3":                        {Addrs: []string{"a:1"}, MaxAsync: -3},
		"MaxPayload is 3":                       {Addrs: []string{"a:1"}, MaxPayload: 3},
		"Balance: balance: Options.Policy is 9": {Addrs: []string{"a:1"}, Balance: balance.Options{Policy: 9}},
		"Attempts: balance: Attempts.Max is -1": {Addrs: []string{"a:1"}, Attempts: balance.Attempts{Max: -1}},
		"Health -1ns":                           {Addrs: []string{"a:1"}, Health: -1},
		"Consumer is 2":                         {Addrs: []string{"a:1"}, Consumer: consumers},
		"Codec is 3":                            {Addrs: []string{"a:1"}, Codec: codecs},
		"Dispatcher is":                         {Addrs: []string{"a:1"}, Dispatcher: dispatchers},
		"DialTimeout is -1s":                    {Addrs: []string{"a:1"}, DialTimeout: -time.Second},
		"Backoff is Min 10s, Max 1s":            {Addrs: []string{"a:1"}, Backoff: Backoff{Min: 10 * time.Second, Max: time.Second}},
		"Jitter 1.5":                            {Addrs: []string{"a:1"}, Backoff: Backoff{Jitter: 1.5}},
		`address "a"`:                           {Addrs: []string{"a"}},
		`"a:http"`:                              {Addrs: []string{"a:http"}},
	} {
		cl, err := NewClient(o)
		if err == nil {
			cl.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "rpc: ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
