package http1_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

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
	srv := &eddy.Server{Init: http1.NewHandler(mux, pool, http1.Options{}).Init, HalfClose: true}
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
