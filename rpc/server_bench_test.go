//go:build unix

package rpc

import (
	"context"
	"testing"
	"time"
)

// BenchmarkServer measures calls per CPU second of client and server, bodies of 128 bytes, raw and JSON; BenchmarkCalls has
// net/rpc beside it.
func BenchmarkServer(b *testing.B) {
	body := make([]byte, 128)
	key := Key{Interface: "bench.Echoer", Version: "1.0"}
	svc, err := NewService(key,
		Raw("Echo", func(_ context.Context, body []byte) ([]byte, error) { return body, nil }),
		Unary("Hello", func(_ context.Context, req *greeting) (*greeting, error) { return req, nil }))
	if err != nil {
		b.Fatal(err)
	}
	for name, o := range map[string]PortOptions{
		"all":      {},
		"4threads": {Pool: PoolOptions{Threads: 4, Queue: 1000}},
		"direct":   {Dispatcher: DispatchDirect},
	} {
		s := serve(b, newServer(b, ServerOptions{Ports: []PortOptions{o}}), svc)
		for callers, name := range map[int]string{1: name + "/1caller", 64: name + "/64callers"} {
			b.Run(name+"/raw", func(b *testing.B) {
				cl, err := NewClient(ClientOptions{Addrs: []string{s.Addr("port0").String()}, Timeout: time.Minute, Codec: CodecRaw})
				if err != nil {
					b.Fatal(err)
				}
				defer cl.Close()
				benchCallers(b, callers, func() error {
					_, err := Invoke[[]byte](context.Background(), cl, key, "Echo", &body)
					return err
				})
			})
			b.Run(name+"/json", func(b *testing.B) {
				cl, err := NewClient(ClientOptions{Addrs: []string{s.Addr("port0").String()}, Timeout: time.Minute, Codec: CodecJSON})
				if err != nil {
					b.Fatal(err)
				}
				defer cl.Close()
				benchCallers(b, callers, func() error {
					_, err := Invoke[greeting](context.Background(), cl, key, "Hello", &greeting{Name: "Ann"})
					return err
				})
			})
		}
	}
}
