// Command eddyhttp is the engine's HTTP server under measurement: a small answer from a function on the loop, or from a
// net/http handler on a pool, or the files of a directory from such a handler.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/bench/internal/target"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
)

func onLoop(w *http1.LoopResponse, _ *http1.LoopRequest) bool {
	w.AddHeader("Content-Type", target.HTTPType)
	_, _ = w.WriteString(target.HTTPBody) // never fails
	return true
}

func onPool(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", target.HTTPType)
	io.WriteString(w, target.HTTPBody)
}

func main() {
	workers := flag.Int("workers", 0, "answer on a pool of this many workers; 0 answers on the loop")
	dir := flag.String("files", "", "serve the files of this directory, on a pool")
	h2 := flag.Bool("http2", false, "speak HTTP/2 with prior knowledge, in place of HTTP/1.1")
	secure := flag.Bool("tls", false, "speak TLS, with a certificate made at the start")
	flag.Parse()
	var h http.Handler = http.HandlerFunc(onPool)
	if *dir != "" {
		h = http.FileServer(http.Dir(*dir))
	}
	if err := run(*workers, h, *h2, *secure); err != nil {
		log.Fatalf("eddyhttp: %v", err)
	}
}

func run(workers int, h http.Handler, h2, secure bool) error {
	var pool *executor.Pool
	onLoop := onLoop
	if workers == 0 {
		h = nil
	} else {
		var err error
		if pool, err = executor.NewFixed(executor.Options{Name: "http", Workers: workers, Queue: 1 << 16}); err != nil {
			return err
		}
		defer pool.Close()
		onLoop = nil
	}
	var init func(*eddy.Pipeline) error
	if h2 {
		init = http2.NewHandler(h, pool, http2.Options{OnLoop: onLoop}).Init
	} else {
		init = http1.NewHandler(h, pool, http1.Options{OnLoop: onLoop}).Init
	}
	if secure {
		layer, pool, err := target.TLS()
		if err != nil {
			return err
		}
		defer pool.Close()
		plain := init
		init = func(p *eddy.Pipeline) error { return errors.Join(p.Add("tls", layer), plain(p)) }
	}
	srv := &eddy.Server{Loops: 1, Init: init, Logger: slog.New(slog.DiscardHandler)} // the load generator leaves with resets
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	target.Serve(srv.Addr())
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := srv.Shutdown(ctx)
	return err
}
