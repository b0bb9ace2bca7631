// Command drain ends as a server behind a load balancer should. At SIGTERM or Ctrl+C it first only says on /readyz that it wants no new requests.
// Then it stops accepting, lets requests in flight finish, and logs the outcome. Try it: curl 127.0.0.1:8000/slow, and Ctrl+C meanwhile.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
)

// A program is the server and whether it is about to leave.
type program struct {
	srv     *eddy.Server
	leaving atomic.Bool
}

func newProgram(slow http.HandlerFunc) (*program, error) {
	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 16, Queue: 64})
	if err != nil {
		return nil, err
	}
	p := new(program)
	ready := func(w *http1.LoopResponse, r *http1.LoopRequest) bool {
		if string(r.Path()) != "/readyz" {
			return false
		}
		if p.leaving.Load() {
			w.SetStatus(http.StatusServiceUnavailable)
		}
		return true
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /slow", slow)
	p.srv = &eddy.Server{
		Init:  http1.NewHandler(mux, pool, http1.Options{OnLoop: ready}).Init,
		Pools: []*executor.Pool{pool},
	}
	return p, nil
}

// leave ends the program in order. It waits for notice, in which the load balancer sees /readyz, then drains for at most grace.
func (p *program) leave(notice, grace time.Duration) (eddy.DrainReport, error) {
	p.leaving.Store(true)
	time.Sleep(notice)
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return p.srv.Shutdown(ctx)
}

func main() {
	p, err := newProgram(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * time.Second)
		fmt.Fprintln(w, "done")
	})
	if err == nil {
		err = p.srv.Listen("tcp", "127.0.0.1:8000")
	}
	if err != nil {
		log.Fatal(err)
	}
	told, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	<-told.Done()
	stop() // a second signal ends the program at once
	report, err := p.leave(time.Second, 10*time.Second)
	log.Printf("%d connections drained, %d forced, %d requests dropped, %v", report.Drained, report.Forced, report.Dropped, err)
}
