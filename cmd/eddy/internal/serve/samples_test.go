package serve

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// dubboSample is a file of a sample in Dubbo's documentation, as it is printed there.
func dubboSample(name string) string {
	return filepath.Join("..", "..", "..", "..", "rpc", "config", "testdata", "dubbo", name)
}

// TestDubboSamples: what this command links starts as printed. What it does not link is named with what to give the program, and where it is linked.
func TestDubboSamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"dump.properties", "dump.xml", "dump.yaml", "directory.properties", "directory.xml", "directory.yaml"} {
		t.Run(name, func(t *testing.T) {
			p := cmdtest.StartServer(t, "serve", "rpc", "--config", dubboSample(name), "--addr", "127.0.0.1:0")
			p.WaitOutput(p.Errs, regexp.MustCompile(`has no protocols: the port is that of --addr`))
			if stdout, stderr, code := callAt(t, p.Addr, javaHello, "sayHello", `"you"`); code != 0 || stdout != "\"server hello\"\n" {
				t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
			}
			if stdout, stderr, code := callAt(t, p.Addr, "demo.Greeter", "Hello", `{"name":"you"}`); code != 0 || stdout != "{\"message\":\"Hello, you!\"}\n" {
				t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
			}
		})
	}
	for name, lines := range map[string][2]string{"application.yaml": {"application.yaml:5: dubbo.protocol.name", "application.yaml:10: dubbo.registry.address"}, "isolation.xml": {"isolation.xml:15: dubbo:protocol.name", "isolation.xml:13: dubbo:registry.address"}} {
		_, stderr, code := cmdtest.Run(t, "serve", "rpc", "--config", dubboSample(name))
		for _, want := range []string{lines[0] + `: "dubbo" is of an engine that is not linked: give the program dubbo.Wire() of github.com/go-eddy/eddy/rpc/dubbo`,
			lines[1] + `: "zookeeper://127.0.0.1:2181" is of an engine that is not linked: give the program zookeeper.Engine() of github.com/go-eddy/eddy/rpc/discovery/zookeeper`,
			"the command of cmd/eddy/full links ZooKeeper, etcd and the dubbo protocol"} {
			if code != 1 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s: exit code %d, %q, want %q", name, code, stderr, want)
			}
		}
	}
}

// The three formats of a provider whose protocols and registry every program has.
var ofDubbo = map[string]string{
	"application.yaml": "dubbo:\n  application: {name: shop}\n  protocols:\n    tri: {port: -1, host: 127.0.0.1}\n    frame: {port: -1, host: 127.0.0.1}\n  registry: {address: N/A}\n" +
		"  services:\n    hello: {interface: " + javaHello + ", group: g, version: 1.0.0, protocol: 'tri,frame', timeout: 70000}\n",
	"dubbo.properties": "dubbo.application.name=shop\ndubbo.protocols.tri.port=-1\ndubbo.protocols.tri.host=127.0.0.1\ndubbo.protocols.frame.port=-1\ndubbo.protocols.frame.host=127.0.0.1\n" +
		"dubbo.registry.address=N/A\ndubbo.services.hello.interface=" + javaHello + "\ndubbo.services.hello.group=g\ndubbo.services.hello.version=1.0.0\ndubbo.services.hello.protocol=tri,frame\ndubbo.services.hello.timeout=70000\n",
	"provider.xml": `<dubbo:application name="shop"/><dubbo:protocol name="tri" port="-1" host="127.0.0.1"/><dubbo:protocol name="frame" port="-1" host="127.0.0.1"/>
<dubbo:registry address="N/A"/><dubbo:service interface="` + javaHello + `" group="g" version="1.0.0" protocol="tri,frame" timeout="70000" ref="bean"/>`,
}

// TestDubboFiles: a provider in each format serves its service by both of its protocols, at ports that it finds.
func TestDubboFiles(t *testing.T) {
	t.Parallel()
	for name, text := range ofDubbo {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := cmdtest.StartServer(t, "serve", "rpc", "--config", file)
		ports := p.WaitOutput(p.Out, regexp.MustCompile(`rpc \(tri\) on (\S+), dispatcher all, rpc \(frame\) on (\S+), dispatcher all, isolation shared; stop`))
		list, _, _ := callAt(t, ports[2], "--list")
		if !regexp.MustCompile(`HelloService +1\.0\.0 +g +sayHello +json +1m10s +tri,frame\n`).MatchString(list) {
			t.Errorf("%s: it lists\n%s", name, list)
		}
		if stdout, stderr, code := callAt(t, ports[2], javaHello, "sayHello", `"you"`, "--group", "g", "--version", "1.0.0"); code != 0 || stdout != "\"server hello\"\n" {
			t.Errorf("%s: exit code %d, %q, %q", name, code, stdout, stderr)
		}
		if status, body := post(t, "http://"+ports[1]+"/"+javaHello+"/sayHello"); status != http.StatusOK || strings.TrimSpace(body) != `"server hello"` {
			t.Errorf("%s by tri: %d %q", name, status, body)
		}
	}
}

// post calls a method as a page does, by the group and version of the file.
func post(t *testing.T, url string) (status int, body string) {
	t.Helper()
	return cmdtest.Ask(t, http.MethodPost, url, `"you"`, "Tri-Service-Group", "g", "Tri-Service-Version", "1.0.0")
}
