package dubbo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/dubbo"
)

// hessianJar is where Debian's libhessian-java has Caucho's Hessian, of which Dubbo's is a fork.
const hessianJar = "/usr/share/java/hessian.jar"

// javaPeer compiles Peer.java and returns the command that runs it.
func javaPeer(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	javac, java := testkit.Tool(t, "java", "javac"), testkit.Tool(t, "java")
	if _, err := os.Stat(hessianJar); err != nil {
		if testkit.Required("java") {
			t.Fatalf("java is required by EDDY_REQUIRE, and Debian's libhessian-java is not installed: %v", err)
		}
		t.Skipf("Debian's libhessian-java is not installed: %v", err)
	}
	dir := t.TempDir()
	path := hessianJar + string(filepath.ListSeparator) + dir
	if out, err := exec.Command(javac, "-encoding", "UTF-8", "-cp", path, "-sourcepath", "testdata", "-d", dir, "testdata/Peer.java").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	open := []string{"--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED", "-cp", path, "Peer"} // Hessian sets fields of Throwable
	return exec.CommandContext(testkit.Context(t), java, append(open, args...)...)
}

// MoreUsers is Users with what Java sends besides.
type MoreUsers struct{ Users }

// Same returns its argument.
func (*MoreUsers) Same(_ context.Context, u *User) (*User, error) { return u, nil }

// Later returns the next second.
func (*MoreUsers) Later(_ context.Context, t time.Time) (time.Time, error) {
	return t.Add(time.Second), nil
}

// Reversed returns bytes in the opposite order.
func (*MoreUsers) Reversed(_ context.Context, b []byte) ([]byte, error) {
	slices.Reverse(b)
	return b, nil
}

// Half returns half of a number.
func (*MoreUsers) Half(_ context.Context, f float64) (float64, error) { return f / 2, nil }

// TestJavaClient: a client in Java calls our server by the dubbo protocol, with Caucho's Hessian.
func TestJavaClient(t *testing.T) {
	host, port, err := net.SplitHostPort(serve(t, func(srv *rpc.Server) error {
		svc, err := dubbo.NewService(rpc.Key{Interface: userProvider}, new(MoreUsers), dubbo.Limits{})
		if err != nil {
			return err
		}
		return srv.Register(svc)
	}))
	if err != nil {
		t.Fatal(err)
	}
	out, err := javaPeer(t, "client", host, port).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, want := range []string{
		"heartbeat true",
		"getUser 20 7 Ann Ünal 😀 [a, b]",
		fmt.Sprint("sum 20 ", 3+1<<40),
		"names 20 2",
		"100028 characters",
		"same 20 null",
		"later 20 1700000001123",
		"reversed 20 [-1, 3, 2, 1]",
		"half 20 1.75",
		"getUser 20 java.lang.RuntimeException: nobody has no number",
		"nothing 60 ",
		"$invoke 20 java.lang.RuntimeException: nobody has no number of java.lang.RuntimeException, nobody has no number",
		"tagError 20 java.lang.RuntimeException: tagged with {word=bye}",
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("line %d: want %q in\n%s", i+1, want, out)
			break
		}
	}
}

// TestJavaServer: our client calls a server in Java.
func TestJavaServer(t *testing.T) {
	cmd := javaPeer(t, "server")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, pipe)
		_ = cmd.Wait()
	}()
	port, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{"127.0.0.1:" + strings.TrimSpace(port)}, Timeout: testkit.Patience, WaitForReady: true, Front: dubbo.ClientFront(dubbo.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	if err := callOurs(t, cl); !errors.Is(err, rpc.ErrApp) || !strings.Contains(err.Error(), "java.lang.IllegalStateException: nobody has no number") {
		t.Errorf("an error: %v", err)
	}
	key := rpc.Key{Interface: userProvider}
	var attached rpc.Metadata
	_, err = dubbo.Invoke[any](t.Context(), cl, key, "nothing", nil, rpc.CallTrailer(&attached))
	if word, _ := attached.Get("word"); !errors.Is(err, rpc.ErrApp) || !strings.HasSuffix(err.Error(), "java.lang.NoSuchMethodException: nothing") || word != "bye" {
		t.Errorf("an exception: %v with %v", err, attached)
	}
	want := User{1 << 50, strings.Repeat("Ünal 😀 ", 20_000), nil}
	if got, err := dubbo.Invoke[*User](t.Context(), cl, key, "same", []any{&want}); err != nil || got.ID != want.ID || got.Name != want.Name || len(got.Tags) > 0 {
		t.Errorf("a large user: %v", err)
	}
	if got, err := dubbo.Invoke[*User](t.Context(), cl, key, "same", []any{(*User)(nil)}); err != nil || got != nil {
		t.Errorf("null: %v, %v", got, err)
	}
	now := time.UnixMilli(1_700_000_000_123)
	if got, err := dubbo.Invoke[time.Time](t.Context(), cl, key, "same", []any{now}); err != nil || !got.Equal(now) {
		t.Errorf("a date: %v, %v", got, err)
	}
}
