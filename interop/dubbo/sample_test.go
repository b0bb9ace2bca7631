package dubbo

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"dubbo.apache.org/dubbo-go/v3/client"

	"github.com/go-eddy/eddy/internal/testkit"
)

// helloService is a service of the samples in Dubbo's documentation, for dubbo-go's client.
type helloService struct{}

// Reference implements dubbo-go's way to name a service.
func (*helloService) Reference() string { return "org.apache.dubbo.config.spring.api.HelloService" }

// SayHello is the method by which dubbo-go's client knows the service; it is called at ours.
func (*helloService) SayHello(context.Context, string) (string, error) { return "", nil }

// TestSampleIsCalledByDubboGo: the sample of Dubbo's documentation starts the command as it is printed, and dubbo-go's client calls a service of it by
// both protocols.
func TestSampleIsCalledByDubboGo(t *testing.T) {
	program := filepath.Join(t.TempDir(), "eddy")
	if out, err := exec.Command("go", "build", "-C", filepath.Join("..", "..", "cmd", "eddy", "full"), "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var out testkit.Output
	cmd := exec.Command(program, "serve", "rpc", "--config", filepath.Join("..", "..", "rpc", "config", "testdata", "dubbo", "isolation.xml"))
	cmd.Stdout, cmd.Env = &out, append(os.Environ(), "HOME="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	printed := regexp.MustCompile(`rpc \(dubbo\) on \S+:(\d+), .* rpc \(tri\) on \S+:(\d+), `)
	testkit.Eventually(t, "the ports", func() bool { return printed.MatchString(out.String()) })
	ports := printed.FindStringSubmatch(out.String())
	for i, protocol := range []string{"dubbo", "tri"} {
		opts := []client.ReferenceOption{client.WithGroup("Group2"), client.WithVersion("2.0.0")}
		if protocol == "dubbo" {
			opts = append(opts, client.WithProtocolDubbo())
		}
		conn := dial(t, protocol+"://127.0.0.1:"+ports[i+1], new(helloService), opts...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var said string
		if err := conn.CallUnary(ctx, []any{"you"}, &said, "SayHello"); err != nil || said != "server hello" {
			t.Errorf("%s: %q, %v", protocol, said, err)
		}
		cancel()
	}
}
