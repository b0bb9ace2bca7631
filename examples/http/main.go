// Command http serves any net/http handler on the loops. The handler runs on a bounded pool, and a request that finds the pool full is answered 503.
// /healthz is answered on the loop, also when the pool is full. Try it with: curl -i 127.0.0.1:8000/hello/you
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
)

func routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s\n", r.PathValue("name"))
	})
	return mux
}

// health runs on the loop and must not block.
func health(w *http1.LoopResponse, r *http1.LoopRequest) bool {
	if string(r.Path()) != "/healthz" {
		return false // for the handler
	}
	_, _ = w.WriteString("ok\n")
	return true
}

func server(h http.Handler) (*eddy.Server, error) {
	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 64, Queue: 256})
	if err != nil {
		return nil, err
	}
	return &eddy.Server{
		Init:     http1.NewHandler(h, pool, http1.Options{MaxBody: 1 << 20, OnLoop: health}).Init,
		MaxConns: 10_000,
		Pools:    []*executor.Pool{pool},
	}, nil
}

func main() {
	srv, err := server(routes())
	if err == nil {
		err = srv.ListenAndServe("tcp", "127.0.0.1:8000")
	}
	log.Fatal(err)
}
