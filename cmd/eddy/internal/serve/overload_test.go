package serve

import (
	"bufio"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestServeOverload: with --overload a server whose memory is used up stops accepting, says so to its clients, and shows it in its numbers;
// its operator gets in. With enough memory it serves as before.
func TestServeOverload(t *testing.T) {
	for _, server := range []string{"http", "frame", "rpc"} {
		p := cmdtest.StartServer(t, "serve", server, "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--overload", "--overload-memory", "1KiB")
		testkit.Eventually(t, server+" to be overloaded", func() bool {
			_, text := cmdtest.Get(t, p.Operator()+"/metrics")
			return strings.Contains(text, `eddy_overload_grade{overload="`+server+`"} 5`) && strings.Contains(text, `eddy_pool_workers_limit{pool=`)
		})
		if _, text := cmdtest.Get(t, p.Operator()+"/stats.json"); !regexp.MustCompile(`"overload":\[\{"name":"` + server + `","grade":"stop_accepting"`).MatchString(text) {
			t.Errorf("%s: %s", server, text)
		}
		if server == "http" {
			resp := refusal(t, p.Addr)
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
				t.Errorf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
			}
		}
		p.Stop()
	}
	p := cmdtest.StartServer(t, "serve", "http", "--addr", "127.0.0.1:0", "--overload", "--overload-memory", "off", "--overload-lag", "1h", "--overload-queue-age", "0")
	if status, _ := cmdtest.Get(t, "http://"+p.Addr); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	p.Stop()
}

// refusal returns the answer to a connection that is not taken, which comes before a request.
func refusal(t *testing.T, addr string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestServeOverloadFlags: limits without --overload, and limits that make no sense, are refused by name.
func TestServeOverloadFlags(t *testing.T) {
	for _, c := range []struct {
		args          string
		thing, remedy string
	}{
		{"http --overload-memory 1GiB", "--overload-memory", "--overload"},
		{"frame --overload-lag 1s", "--overload-lag", "--overload"},
		{"rpc --overload --overload-queue-age -1s", "--overload-queue-age -1s", "500ms"},
		{"http --overload --overload-lagg 1s", "--overload-lagg", "--overload-lag"},
		{"rpc --config ../../../../rpc/config/testdata/r170.yaml --overload", "--overload and --config", "into the file"},
	} {
		cmdtest.ExpectFailure(t, append([]string{"serve"}, strings.Fields(c.args)...), c.thing, c.remedy)
	}
}
