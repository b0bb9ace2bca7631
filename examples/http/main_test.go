package main

import (
	"io"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/examples/internal/try"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestHTTP asks the example with the standard library's client.
func TestHTTP(t *testing.T) {
	srv, err := server(routes())
	if err != nil {
		t.Fatal(err)
	}
	addr := try.Serve(t, srv)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/hello/you": "200 OK hello, you\n", "/healthz": "200 OK ok\n", "/x": "404 Not Found 404 page not found\n"} {
		resp, err := client.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := resp.Status + " " + string(body); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
}
