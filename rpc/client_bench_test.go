//go:build unix

package rpc

import (
	"context"
	"io"
	"log/slog"
	"net"
	netrpc "net/rpc"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// Echoer is the service of net/rpc that the client is measured against.
type Echoer struct{}

// Echo returns what it is given.
func (Echoer) Echo(req *[]byte, resp *[]byte) error {
	*resp = *req
	return nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// echoFrames serves echoes of bodies over the frame protocol.
func echoFrames(tb testing.TB) string {
	pool, err := executor.NewFixed(executor.Options{Workers: 4, Queue: 10000})
	if err != nil {
		tb.Fatal(err)
	}
	s, err := frame.NewServer(frame.Options{Pool: pool, Handle: func(_ context.Context, f *frame.Frame) ([]byte, error) {
		p, err := payload.ParsePrefix(f.Payload)
		return p.Body, err
	}})
	if err != nil {
		tb.Fatal(err)
	}
	srv := &eddy.Server{Loops: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Pools: []*executor.Pool{pool}}
	s.Configure(srv)
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { srv.Close(); pool.Shutdown(context.Background()) })
	return srv.Addr().String()
}

// echoOnLoop does so without a pool.
func echoOnLoop(tb testing.TB) string {
	srv := &eddy.Server{Loops: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Init: func(p *eddy.Pipeline) error {
		p.Add("frames", frame.Decoder())
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, f *frame.Frame) error {
			defer f.Release()
			x, err := payload.ParsePrefix(f.Payload)
			if err != nil {
				return err
			}
			var head [frame.HeaderSize]byte
			return ctx.WriteParts(frame.AppendHeader(head[:0], f.ID, uint8(frame.StatusOK), len(x.Body)), x.Body)
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { srv.Close() })
	return srv.Addr().String()
}

func benchCallers(b *testing.B, callers int, call func() error) {
	b.ReportAllocs()
	var wg sync.WaitGroup
	begin := cpuTime()
	b.ResetTimer()
	for i := range callers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := i; n < b.N; n += callers {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	b.StopTimer()
	if cpu := (cpuTime() - begin).Seconds(); cpu > 0 {
		b.ReportMetric(float64(b.N)/cpu, "calls/cpu-s")
	}
}

// BenchmarkCalls compares calls per CPU second of client and server with net/rpc, bodies of 128 bytes.
func BenchmarkCalls(b *testing.B) {
	body := make([]byte, 128)
	for _, callers := range []int{1, 64} {
		b.Run(map[int]string{1: "1caller", 64: "64callers"}[callers], func(b *testing.B) {
			for name, serve := range map[string]func(testing.TB) string{"pool": echoFrames, "loop": echoOnLoop} {
				b.Run("eddy-"+name, func(b *testing.B) {
					cl, err := NewClient(ClientOptions{Addrs: []string{serve(b)}, Timeout: time.Minute})
					if err != nil {
						b.Fatal(err)
					}
					defer cl.Close()
					key := Key{Interface: "bench.Echoer", Version: "1.0"}
					benchCallers(b, callers, func() error {
						_, err := Invoke[[]byte](context.Background(), cl, key, "Echo", &body)
						return err
					})
				})
			}
			b.Run("netrpc", func(b *testing.B) {
				s := netrpc.NewServer()
				if err := s.Register(Echoer{}); err != nil {
					b.Fatal(err)
				}
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						go s.ServeConn(c)
					}
				}()
				cl, err := netrpc.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				defer cl.Close()
				benchCallers(b, callers, func() error {
					var resp []byte
					return cl.Call("Echoer.Echo", &body, &resp)
				})
			})
		})
	}
}
