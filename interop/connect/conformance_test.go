package connect

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// conformanceServer in the environment makes this test program the server that the runner tests.
const conformanceServer = "EDDY_CONFORMANCE_SERVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(conformanceServer); dir != "" {
		if err := serveConformance(dir, os.Stdin, os.Stdout); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// conformanceConfig says what of the cases is for us: all but other compressions and HTTP/3.
const conformanceConfig = `features:
  versions: [HTTP_VERSION_1, HTTP_VERSION_2]
  protocols: [PROTOCOL_CONNECT, PROTOCOL_GRPC, PROTOCOL_GRPC_WEB]
  codecs: [CODEC_PROTO, CODEC_JSON]
  compressions: [COMPRESSION_IDENTITY, COMPRESSION_GZIP]
  supports_h2c: true
  supports_tls: true
  supports_tls_client_certs: true
  supports_connect_get: true
  supports_message_receive_limit: true
`

// TestConnectConformance: the Connect project's runner, its clients against our server. It builds the runner, which takes a
// while, so it runs where EDDY_REQUIRE names connectconformance.
func TestConnectConformance(t *testing.T) {
	if !slices.Contains(strings.Split(os.Getenv("EDDY_REQUIRE"), ","), "connectconformance") {
		t.Skip("connectconformance is not in EDDY_REQUIRE")
	}
	out, err := exec.Command("go", "list", "-m", "-json", "connectrpc.com/conformance").Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(conformanceConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"tool", "connectconformance", "--mode", "server", "--conf", config}
	if run := os.Getenv("EDDY_CONFORMANCE_RUN"); run != "" { // a pattern of cases
		args = append(args, "-v", "--run", run)
	}
	cmd := exec.Command("go", append(args, "--", self)...)
	cmd.Env = append(os.Environ(), conformanceServer+"="+filepath.Join(module.Dir, "proto"))
	report, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, report)
	}
	t.Logf("%s", report)
}
