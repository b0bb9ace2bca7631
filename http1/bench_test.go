package http1

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

// BenchmarkPlaintext compares a small response over keep-alive connections with
// net/http's server, the same client against both.
func BenchmarkPlaintext(b *testing.B) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "Hello, World!")
	})
	b.Run("eddy", func(b *testing.B) {
		pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 16})
		if err != nil {
			b.Fatal(err)
		}
		defer pool.Close()
		srv := &eddy.Server{Init: NewHandler(h, pool, Options{}).Init, Logger: slog.New(slog.DiscardHandler)}
		if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = srv.Close() }()
		load(b, srv.Addr().String())
	})
	b.Run("nethttp", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		srv := &http.Server{Handler: h}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = srv.Serve(l)
		}()
		load(b, l.Addr().String())
		_ = srv.Close()
		<-done
	})
}

// load sends b.N requests over a few connections, one at a time on each.
func load(b *testing.B, addr string) {
	const conns = 32
	b.ReportAllocs()
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			br := bufio.NewReader(c)
			for range (b.N + i) / conns {
				if _, err := io.WriteString(c, keepGet); err != nil {
					b.Error(err)
					return
				}
				if err := skipResponse(br); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// skipResponse reads a response with the benchmark's body, as cheaply as can be.
func skipResponse(br *bufio.Reader) error {
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			_, err := br.Discard(len("Hello, World!"))
			return err
		}
	}
}
