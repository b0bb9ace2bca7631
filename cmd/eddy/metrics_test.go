package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// TestMetricsOfServers: with --admin each server command tells Prometheus of its server, its pools and its protocol.
func TestMetricsOfServers(t *testing.T) {
	data, _ := cmdtest.MadeDesk(t)
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"http": {[]string{"serve", "http"}, []string{
			`eddy_server_connections{server="http"}`, `eddy_pool_workers_limit{pool="http"} 64`, `eddy_http_requests_total{http="http"} 0`,
			`eddy_loop_healthy{group="http",loop="worker-0"} 1`, "go_goroutines ",
		}},
		"ws":    {[]string{"serve", "ws", "--tls-self-signed"}, []string{`eddy_websocket_opened_total{websocket="ws"} 0`, `eddy_tls_handshakes{tls="tls"} 0`, `eddy_pool_workers{pool="tls"}`}},
		"frame": {[]string{"serve", "frame"}, []string{`eddy_requests_failed_total{outcome="rejected",responder="frame"} 0`, `eddy_pool_queued{pool="frame"} 0`}},
		"lanes": {[]string{"serve", "lanes"}, []string{`eddy_lane_workers{lane=`, `eddy_loop_healthy{group="loop",loop="worker-0"} 1`, `eddy_server_accepted_total{server="lanes"} 0`}},
		"rpc":   {[]string{"serve", "rpc"}, []string{`eddy_server_accepted_total{server="rpc/rpc"} 0`, `eddy_rpc_server_calls_total{rpc="rpc",service=`, `eddy_pool_workers_limit{pool="rpc/port rpc"} 200`}},
		"desk": {[]string{"desk", "--data", data}, []string{
			`eddy_desk_sessions{desk="desk"} 0`, `eddy_desk_conversations{desk="desk",state="queued"} 0`, `eddy_http_requests_total{http="desk"} 0`, `eddy_server_connections{server="desk"}`, `eddy_pool_workers{pool=`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := cmdtest.StartServer(t, append(c.args, "--addr", "127.0.0.1:0", "--loops", "1", "--admin", "127.0.0.1:0")...)
			resp, err := http.Get(p.Operator() + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
			}
			for _, want := range c.want {
				if !strings.Contains("\n"+string(body), "\n"+want) {
					t.Errorf("there is no %s", want)
				}
			}
			p.Stop()
		})
	}
}
