// Command frame serves the frame protocol: requests with ids, executed on a bounded pool, answered as they are done. A pool that is full answers
// BUSY. Load it with: go run ./cmd/eddy bench frame
package main

import (
	"bytes"
	"context"
	"log"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
)

// call is the application. It runs on the pool, where it may block; ctx ends with the request.
func call(_ context.Context, req *frame.Frame) ([]byte, error) {
	if req.Op() != frame.Call {
		return nil, &frame.StatusError{Status: frame.StatusNotFound, Message: "only CALL is served"}
	}
	return bytes.ToUpper(req.Payload), nil
}

func server() (*eddy.Server, error) {
	pool, err := executor.NewFixed(executor.Options{Name: "business", Workers: 16, Queue: 1024})
	if err != nil {
		return nil, err
	}
	frames, err := frame.NewServer(frame.Options{
		Pool:       pool,
		Handle:     call,
		MaxPayload: 64 << 10,
		Timeout:    func(*frame.Frame) time.Duration { return 5 * time.Second },
		RetryAfter: 50 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	srv := &eddy.Server{Pools: []*executor.Pool{pool}} // the pool ends with the server
	frames.Configure(srv)
	return srv, nil
}

func main() {
	srv, err := server()
	if err == nil {
		err = srv.ListenAndServe("tcp", "127.0.0.1:7000")
	}
	log.Fatal(err)
}
