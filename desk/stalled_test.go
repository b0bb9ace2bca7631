package desk

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestStalledBodies: clients that begin a login or a visit and stall in its body hold a connection and no place of others,
// however many they are.
func TestStalledBodies(t *testing.T) {
	d := openDesk(t, testOptions(t))
	if err := d.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	addr := d.Addr().String()
	const stalled = front.Workers
	for i := range stalled {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		path := "/api/v1/agent/login"
		if i%2 == 0 {
			path = "/api/v1/widget/session"
		}
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", path, addr)
	}
	testkit.Eventually(t, "all of them", func() bool { return d.http.Stats().Requests >= stalled })
	var client http.Client
	defer client.CloseIdleConnections()
	for path, body := range map[string]string{"/api/v1/agent/login": credentials("nobody", "at all"), "/api/v1/widget/session": `{"site":"demo"}`} {
		res, err := client.Post("http://"+addr+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, res.StatusCode, text)
		}
	}
	if n := d.Stats().RequestsBusy; n != 0 {
		t.Errorf("%d requests were refused", n)
	}
}
