package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDrain: a request in flight when the program leaves is answered. The program first says on /readyz that it leaves,
// and then accepts no connection.
func TestDrain(t *testing.T) {
	begun, gate := make(chan struct{}), make(chan struct{})
	p, err := newProgram(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-gate
		_, _ = fmt.Fprint(w, "done")
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer p.srv.Close()
	addr := p.srv.Addr().String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	get := func(path string) string {
		resp, err := client.Get("http://" + addr + path)
		if err != nil {
			return err.Error()
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		return fmt.Sprint(resp.StatusCode, " ", string(body), " ", err)
	}
	if got := get("/readyz"); got != "200  <nil>" {
		t.Errorf("before: %q", got)
	}
	answer := make(chan string, 1)
	go func() { answer <- get("/slow") }()
	<-begun
	p.leaving.Store(true) // what leave does first
	if got := get("/readyz"); got != "503  <nil>" {
		t.Errorf("while it leaves: %q", got)
	}
	left := make(chan string, 1)
	go func() {
		report, err := p.leave(0, time.Minute)
		left <- fmt.Sprint(report.Drained, " ", report.Forced, " ", report.Dropped, " ", err)
	}()
	testkit.Eventually(t, "the end of the listener", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return true // it accepts no more
		}
		_ = c.Close()
		return false
	})
	close(gate)
	if got := <-answer; got != "200 done <nil>" {
		t.Errorf("the request in flight: %q", got)
	}
	var drained, forced, dropped int
	if _, err := fmt.Sscanf(<-left, "%d %d %d <nil>", &drained, &forced, &dropped); err != nil || drained < 1 || forced != 0 || dropped != 0 {
		t.Errorf("%d drained, %d forced, %d dropped, %v", drained, forced, dropped, err)
	}
}
