package connect

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// conformanceMode and conformanceDir in the environment make this test program what the runner tests: "server" or "client",
// by the .proto files of the folder.
const (
	conformanceMode = "EDDY_CONFORMANCE_MODE"
	conformanceDir  = "EDDY_CONFORMANCE_DIR"
)

func TestMain(m *testing.M) {
	run := map[string]func(dir string, r io.Reader, w io.Writer) error{"server": serveConformance, "client": callConformance}[os.Getenv(conformanceMode)]
	if run == nil {
		os.Exit(m.Run())
	}
	if err := run(os.Getenv(conformanceDir), os.Stdin, os.Stdout); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// conformanceConfig says what of the cases is for us: by Connect and gRPC-Web there is a server only, and all leave out other
// compressions and HTTP/3.
var conformanceConfig = map[string]string{"server": `features:
  versions: [HTTP_VERSION_1, HTTP_VERSION_2]
  protocols: [PROTOCOL_CONNECT, PROTOCOL_GRPC, PROTOCOL_GRPC_WEB]
  codecs: [CODEC_PROTO, CODEC_JSON]
  compressions: [COMPRESSION_IDENTITY, COMPRESSION_GZIP]
  supports_h2c: true
  supports_tls: true
  supports_tls_client_certs: true
  supports_connect_get: true
  supports_message_receive_limit: true
`, "client": `features:
  versions: [HTTP_VERSION_2]
  protocols: [PROTOCOL_GRPC]
  codecs: [CODEC_PROTO, CODEC_JSON]
  compressions: [COMPRESSION_IDENTITY, COMPRESSION_GZIP]
  supports_h2c: true
  supports_tls: true
  supports_tls_client_certs: true
  supports_message_receive_limit: true
`}

// TestConnectConformance: the Connect project's runner, its clients against our server and its servers against our client. It
// builds the runner, which takes a while, so it runs where EDDY_REQUIRE names connectconformance.
func TestConnectConformance(t *testing.T) {
	if !slices.Contains(strings.Split(os.Getenv("EDDY_REQUIRE"), ","), "connectconformance") {
		t.Skip("connectconformance is not in EDDY_REQUIRE")
	}
	out, err := exec.Command("go", "mod", "download", "-json", "connectrpc.com/conformance").Output() // also where the files come from a cache that has none of it yet
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for mode, config := range conformanceConfig {
		t.Run(mode, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"tool", "connectconformance", "--mode", mode, "--conf", file}
			if run := os.Getenv("EDDY_CONFORMANCE_RUN"); run != "" { // a pattern of cases
				args = append(args, "-v", "--run", run)
			}
			cmd := exec.Command("go", append(args, "--", self)...)
			cmd.Env = append(os.Environ(), conformanceMode+"="+mode, conformanceDir+"="+filepath.Join(module.Dir, "proto"))
			report, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, report)
			}
			t.Logf("%s", report)
		})
	}
}
