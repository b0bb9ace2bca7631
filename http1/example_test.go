package http1_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
)

func ExampleNewHandler() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s", r.PathValue("name"))
	})
	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 16})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := &eddy.Server{Init: http1.NewHandler(mux, pool, http1.Options{}).Init}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + srv.Addr().String() + "/hello/eddy")
	if err != nil {
		fmt.Println(err)
		return
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	fmt.Println(resp.StatusCode, string(body))

	_, err = srv.Shutdown(context.Background())
	fmt.Println(err)
	_, err = pool.Shutdown(context.Background())
	fmt.Println(err)
	// Output:
	// 200 hello, eddy
	// <nil>
	// <nil>
}

// A function on the loop answers what is cheap, and still does when the pool is full.
func ExampleLoopHandler() {
	health := func(w *http1.LoopResponse, r *http1.LoopRequest) bool {
		if string(r.Path()) != "/healthz" {
			return false
		}
		_, _ = w.WriteString("ok")
		return true
	}
	srv := &eddy.Server{Init: http1.NewHandler(nil, nil, http1.Options{OnLoop: health}).Init}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	tr := &http1.Transport{}
	defer tr.Close()
	client := &http.Client{Transport: tr}
	for _, path := range []string{"/healthz", "/else"} {
		resp, err := client.Get("http://" + srv.Addr().String() + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Printf("%d %s\n", resp.StatusCode, body)
	}
	// Output:
	// 200 ok
	// 404 there is nothing here
}

// One route has a pool of its own for requests that wait. Another gets whole
// bodies, so that its handler never waits for one.
func ExampleRoute() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /wait/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		order, _ := io.ReadAll(r.Body) // never waits
		fmt.Fprintf(w, "%s is ordered", order)
	})
	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 16})
	if err != nil {
		fmt.Println(err)
		return
	}
	waiting, err := executor.NewFixed(executor.Options{Name: "waiting", Workers: 500, Queue: executor.HandOff})
	if err != nil {
		fmt.Println(err)
		return
	}
	route := func(r *http.Request) http1.Route {
		switch _, pattern := mux.Handler(r); pattern {
		case "GET /wait/{id}":
			return http1.Route{Pool: waiting}
		case "POST /orders":
			return http1.Route{Await: 64 << 10}
		}
		return http1.Route{}
	}
	srv := &eddy.Server{
		Init:  http1.NewHandler(mux, pool, http1.Options{Route: route}).Init,
		Pools: []*executor.Pool{pool, waiting},
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post("http://"+srv.Addr().String()+"/orders", "text/plain", strings.NewReader("tea"))
	if err != nil {
		fmt.Println(err)
		return
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	fmt.Println(resp.StatusCode, string(body))
	_, err = srv.Shutdown(context.Background())
	fmt.Println(err)
	// Output:
	// 200 tea is ordered
	// <nil>
}

// The callback form never blocks, and the outcome comes on a loop.
func ExampleTransport_Do() {
	hello := func(w *http1.LoopResponse, _ *http1.LoopRequest) bool { _, _ = w.WriteString("hello"); return true }
	srv := &eddy.Server{Init: http1.NewHandler(nil, nil, http1.Options{OnLoop: hello}).Init}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	tr := &http1.Transport{}
	defer tr.Close()

	r, _ := http.NewRequest("GET", "http://"+srv.Addr().String()+"/", nil)
	done := make(chan string, 1)
	err := tr.Do(r, func(resp *http.Response, err error) {
		if err == nil {
			err = http1.ReadBody(resp, 1<<10, func(body []byte, err error) { done <- fmt.Sprint(string(body), " ", err) })
		}
		if err != nil {
			done <- err.Error()
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-done)
	// Output: hello <nil>
}
