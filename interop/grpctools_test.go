package interop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
)

// TestGRPCTools: tools of the gRPC world find and call our services, which they know by reflection. Each needs its program.
func TestGRPCTools(t *testing.T) {
	addr := serve(t, rpc.PortOptions{Name: "p"})
	t.Run("grpcurl", func(t *testing.T) {
		grpcurl := testkit.Tool(t, "grpcurl")
		says := func(want string, args ...string) {
			t.Helper()
			if got := run(t, grpcurl, append([]string{"-plaintext"}, args...)...); !strings.Contains(got, want) {
				t.Errorf("%q: %q, want %q", args, got, want)
			}
		}
		says("grpc.testing.TestService\n", addr, "list")
		says("rpc UnaryCall ( .grpc.testing.SimpleRequest ) returns ( .grpc.testing.SimpleResponse );", addr, "describe", "grpc.testing.TestService")
		says(`"body": "AAAAAAAAAAAAAA=="`, "-d", `{"responseSize": 10}`, addr, "grpc.testing.TestService/UnaryCall")
		says(`"body": "AAAA"`, "-d", `{"responseParameters": [{"size": 1}, {"size": 3}]}`, addr, "grpc.testing.TestService/StreamingOutputCall")
		says(`"aggregatedPayloadSize": 6`, "-d", `{"payload": {"body": "AAAA"}} {"payload": {"body": "AAAA"}}`, addr, "grpc.testing.TestService/StreamingInputCall")
		says(`"status": "SERVING"`, addr, "grpc.health.v1.Health/Check")
	})
	t.Run("ghz", func(t *testing.T) {
		ghz := testkit.Tool(t, "ghz")
		for _, load := range []struct {
			method, data string
			calls        int
		}{
			{"UnaryCall", `{"responseSize": 128}`, 2000},
			{"StreamingOutputCall", `{"responseParameters": [{"size": 1024}, {"size": 1024}]}`, 500},
			{"FullDuplexCall", `[{"responseParameters": [{"size": 100}]}, {"responseParameters": [{"size": 100}]}]`, 500},
		} {
			var report struct{ StatusCodeDistribution map[string]int }
			out := run(t, ghz, "--insecure", "--call", "grpc.testing.TestService/"+load.method, "-d", load.data, "-n", fmt.Sprint(load.calls), "-c", "50", "--connections", "4", "-O", "json", addr)
			if err := json.Unmarshal([]byte(out), &report); err != nil {
				t.Fatal(err)
			}
			if len(report.StatusCodeDistribution) != 1 || report.StatusCodeDistribution["OK"] != load.calls {
				t.Errorf("%s: %v", load.method, report.StatusCodeDistribution)
			}
		}
	})
}
