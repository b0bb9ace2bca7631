package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestAdminOfEveryServer: every server command opens the operator's server where --admin says, watches its own server, its
// pools and its lanes, says that it drains while a request is under way, and answers until then.
func TestAdminOfEveryServer(t *testing.T) {
	data, _ := cmdtest.MadeDesk(t)
	for _, args := range [][]string{
		{"serve", "echo"}, {"serve", "line"}, {"serve", "lanes"}, {"serve", "frame"}, {"serve", "rpc"}, {"serve", "http"}, {"serve", "ws"}, {"desk", "--data", data},
	} {
		name := args[1]
		if args[0] == "desk" {
			name = "desk"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := cmdtest.StartServer(t, append(args, "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--memory-budget", "64MiB")...)
			base := p.Operator()
			if status, body := cmdtest.Get(t, base+"/healthz"); status != 200 || body != "ok\n" {
				t.Errorf("/healthz: %d %q", status, body)
			}
			status, body := cmdtest.Get(t, base+"/stats.json")
			if status != 200 || !strings.Contains(body, fmt.Sprintf(`"servers":[{"name":%q,"addr":%q`, name, p.Addr)) {
				t.Errorf("/stats.json: %d %s", status, body)
			}
			if !strings.Contains(body, `"memory_budget_bytes":67108864,`) {
				t.Errorf("--memory-budget is not the server's: %s", body)
			}
			if pools := map[string]string{"frame": "frame", "rpc": "port rpc", "http": "http", "ws": "handshakes", "desk": "conversation"}[name]; pools != "" && !strings.Contains(body, fmt.Sprintf(`"name":%q`, pools)) {
				t.Errorf("pool %q is not watched: %s", pools, body)
			}
			if lanes := strings.Contains(body, `"lanes":[{"set":"lanes","name":"light","workers":1,`); lanes != (name == "lanes") {
				t.Errorf("lanes: %v in %s", lanes, body)
			}
			c := cmdtest.Connect(t, p.Addr)
			deadline := time.Now().Add(testkit.Patience)
			for {
				if _, body = cmdtest.Get(t, base+"/connections"); strings.Contains(body, `"matched":1,`) || time.Now().After(deadline) {
					break
				}
			}
			if !strings.Contains(body, `"matched":1,`) {
				t.Errorf("/connections: %s", body)
			}
			c.Close() // the drain need not wait for it
			p.Stop()
		})
	}
}

// TestAdminCountsRequests: what the page calls requests are requests, not the pieces that the loops make of them.
func TestAdminCountsRequests(t *testing.T) {
	data, _ := cmdtest.MadeDesk(t)
	for name, args := range map[string][]string{"http": {"serve", "http"}, "desk": {"desk", "--data", data}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := cmdtest.StartServer(t, append(args, "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")...)
			base := p.Operator()
			const n = 3
			for range n {
				resp, err := http.Post("http://"+p.Addr+"/", "text/plain", strings.NewReader(strings.Repeat("b", 1<<20))) // the loop makes more than one message of it
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if _, body := cmdtest.Get(t, base+"/stats.json"); !strings.Contains(body, fmt.Sprintf(`"requests":%d,`, n)) {
				t.Errorf("after %d requests: %s", n, body)
			}
			http.DefaultClient.CloseIdleConnections()
			p.Stop()
		})
	}
}

// TestAdminDrains: from the moment that a program is told to end, it is not ready, and the operator can look on.
func TestAdminDrains(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "http", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	base := p.Operator()
	c := cmdtest.Connect(t, p.Addr)
	fmt.Fprint(c, "GET /slow?ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n")
	for deadline := time.Now().Add(testkit.Patience); ; {
		if _, body := cmdtest.Get(t, base+"/connections"); strings.Contains(body, `"in_flight":1`) {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("no request under way: %s", body)
		}
	}
	p.Signal(syscall.SIGTERM)
	p.WaitOutput(p.Errs, regexp.MustCompile("draining"))
	for deadline := time.Now().Add(testkit.Patience); ; {
		if status, body := cmdtest.Get(t, base+"/readyz"); status == 503 && strings.Contains(body, "draining") {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("/readyz: %d %s", status, body)
		}
	}
	if status, _ := cmdtest.Get(t, base+"/healthz"); status != 200 {
		t.Errorf("/healthz while it drains: %d", status)
	}
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d; stderr %q", code, p.Errs)
	}
}

// TestAdminFlags: what is given to --admin and its companions and makes no sense ends the program with one line that names it.
func TestAdminFlags(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--admin", "7070"}, `--admin "7070" is not host:port`},
		{[]string{"--admin", "127.0.0.1:99999"}, `--admin "127.0.0.1:99999"`},
		{[]string{"--admin", "0.0.0.0:0"}, "not loopback: this needs a Token of at least 16 characters; the token comes from --admin-token-file"},
		{[]string{"--admin", ":0", "--admin-token-file", write("short", "abc\n")}, "has 3 characters, want 16 to 256"},
		{[]string{"--admin", ":0", "--admin-token-file", write("empty", "\n")}, "is empty: write a token"},
		{[]string{"--admin", ":0", "--admin-token-file", filepath.Join(dir, "missing")}, "cannot read"},
		{[]string{"--admin-token-file", "x"}, "need --admin"},
		{[]string{"--admin-hosts", "x"}, "need --admin"},
		{[]string{"--log-level", "loud"}, `--log-level is "loud"`},
	} {
		_, errs, code := cmdtest.Run(t, append([]string{"serve", "echo", "--addr", "127.0.0.1:0"}, c.args...)...)
		if code != 1 || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q, want %q", c.args, code, errs, c.want)
		}
	}
	first := cmdtest.StartServer(t, "serve", "echo", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	taken := strings.TrimPrefix(first.Operator(), "http://")
	_, errs, code := cmdtest.Run(t, "serve", "echo", "--addr", "127.0.0.1:0", "--admin", taken)
	if code != 1 || !strings.Contains(errs, taken+" is in use by another program") || !strings.Contains(errs, "--admin") {
		t.Errorf("an address in use: exit code %d, %q", code, errs)
	}
	first.Stop()
}

// TestAdminToken: the token of the file is asked for, at an address that is not loopback too, and the log level is changed
// with it.
func TestAdminToken(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-some-length"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, _ := cmdtest.MadeDesk(t)
	cmd := cmdtest.Program("desk", "--data", data, "--addr", "127.0.0.1:0", "--log-level", "warn")
	cmd.Env = append(cmd.Env, "EDDY_DESK_ADMIN=0.0.0.0:0", "EDDY_DESK_ADMIN_TOKEN_FILE="+file)
	p := cmdtest.StartProcess(t, cmd)
	base := strings.Replace(p.Operator(), "localhost", "127.0.0.1", 1)
	ask := func(method, path, body, token string) (int, string) {
		var header []string
		if token != "" {
			header = []string{"Authorization", "Bearer " + token}
		}
		return cmdtest.Ask(t, method, base+path, body, header...)
	}
	for _, c := range []struct {
		method, path, body, token string
		status                    int
		want                      string
	}{
		{"GET", "/healthz", "", "", 200, "ok"},
		{"GET", "/stats.json", "", "", 401, "token"},
		{"GET", "/stats.json", "", "another-token-of-some-length", 401, "token"},
		{"GET", "/stats.json", "", token, 200, `"program":"eddy desk"`},
		{"GET", "/loglevel", "", token, 200, `{"level":"warn"}`},
		{"PUT", "/loglevel", `{"level":"info"}`, token, 200, `{"level":"info"}`},
	} {
		if status, text := ask(c.method, c.path, c.body, c.token); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s, want %d and %s", c.method, c.path, status, text, c.status, c.want)
		}
	}
	p.WaitOutput(p.Errs, regexp.MustCompile("the log level was changed"))
	out, errs, code := cmdtest.Run(t, "top", strings.TrimPrefix(base, "http://"), "--once", "--token-file", file)
	if code != 0 || !strings.Contains(out, "eddy desk") || !strings.Contains(out, "conversation") {
		t.Errorf("top: exit code %d, %q, %q", code, out, errs)
	}
	if _, errs, code := cmdtest.Run(t, "top", strings.TrimPrefix(base, "http://"), "--once"); code != 1 || !strings.Contains(errs, "--token-file") {
		t.Errorf("top without the token: exit code %d, %q", code, errs)
	}
	p.Stop()
}

// TestAdminPage: the page in a browser: charts and tables that go on by themselves, a connection closed by hand, the table
// of those that ended, the log level, keys, no sideways scrolling on a telephone, light and dark; then the login.
func TestAdminPage(t *testing.T) {
	tab := startBrowser(t)
	const token = "a-token-of-some-length"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	p := cmdtest.StartServer(t, "serve", "http", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--admin-token-file", file)
	base := p.Operator()
	c := cmdtest.Connect(t, p.Addr)
	for range 5 {
		if status, _ := cmdtest.Get(t, "http://"+p.Addr+"/"); status != 200 {
			t.Fatal(status)
		}
	}
	openPage(t, tab, base+"/")
	if where := evaluate[string](t, tab, "location.pathname"); where != "/login" {
		t.Fatalf("without the token the page is %s", where)
	}
	shoot(t, tab, "login", 360, 740, "light")
	act(t, tab, chromedp.SendKeys("#token", "a-wrong-token-of-some-length\r"), chromedp.WaitVisible("#wrong"))
	act(t, tab, chromedp.SendKeys("#token", token+"\r"), chromedp.WaitVisible("#charts figure"))
	values := strings.NewReplacer("PEER", fmt.Sprintf("%q", c.LocalAddr().String()))
	if wrong := evaluate[[]string](t, tab, values.Replace(script(t, "browser_admin.js"))); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("the connection that was closed on the page: %v", err)
	}
	for _, size := range [][2]int64{{1280, 800}, {360, 740}} {
		for _, scheme := range []string{"light", "dark"} {
			shoot(t, tab, "admin", size[0], size[1], scheme)
			if over := evaluate[int](t, tab, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("%d×%d: the page is %d pixels too wide", size[0], size[1], over)
			}
		}
	}
	act(t, tab, chromedp.Click("button[form=logout]"), chromedp.WaitVisible("#token"))
	p.Stop()
}

// act does something in the browser.
func act(t *testing.T, tab context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, testkit.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// shoot sets the size of the window and its colours, and keeps a picture with go test -artifacts.
func shoot(t *testing.T, tab context.Context, name string, width, height int64, scheme string) {
	t.Helper()
	act(t, tab, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
		if err == nil {
			_, err = cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		}
		return err
	}))
	ctx, cancel := context.WithTimeout(tab, testkit.Patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(80))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%d-%s.jpg", name, width, scheme)), picture, 0o600); err != nil {
		t.Fatal(err)
	}
}
