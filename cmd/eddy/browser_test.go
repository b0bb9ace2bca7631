package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// startBrowser starts a Chromium that takes any certificate, with one tab. The test is skipped unless it is asked for.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	if !testkit.Required("browser") {
		t.Skipf("a page test: EDDY_REQUIRE=browser go test -run '^%s$' ./cmd/eddy", t.Name())
	}
	path := testkit.Browser(t)
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(testkit.Patience), chromedp.IgnoreCertErrors, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	tab, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		cancel()
		stop()
	})
	if err := chromedp.Do(tab); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return tab
}

func openPage(t *testing.T, tab context.Context, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, testkit.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
}

// evaluate returns what an expression of the page resolves to.
func evaluate[T any](t *testing.T, tab context.Context, script string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, testkit.Patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func script(t *testing.T, name string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(replace...).Replace(string(text))
}

// TestServeInBrowser: pages of a real browser use "eddy serve http" and "eddy serve ws", with and without TLS and
// compression, and are told when the server goes.
func TestServeInBrowser(t *testing.T) {
	tab := startBrowser(t)
	for _, flags := range [][]string{nil, {"--tls-self-signed"}} {
		t.Run(strings.Join(append([]string{"http"}, flags...), " "), func(t *testing.T) {
			p := cmdtest.StartServer(t, append([]string{"serve", "http", "--addr", "127.0.0.1:0"}, flags...)...)
			openPage(t, tab, cmdtest.Scheme("http", flags)+p.Addr+"/")
			if wrong := evaluate[[]string](t, tab, script(t, "browser_http.js")); len(wrong) > 0 {
				t.Error(strings.Join(wrong, "\n"))
			}
			p.Stop()
		})
	}
	t.Run("ws by HTTP/2", func(t *testing.T) { // a page that came by HTTP/2 opens its WebSockets as streams of that connection
		p := cmdtest.StartServer(t, "serve", "ws", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--max-message", "2500000", "--tls-self-signed", "--compress")
		metrics := p.Operator() + "/metrics"
		openPage(t, tab, "https://"+p.Addr+"/")
		if wrong := evaluate[[]string](t, tab, script(t, "browser_ws.js", "ADDRESS", fmt.Sprintf("%q", "wss://"+p.Addr), "COMPRESSED", "true")); len(wrong) > 0 {
			t.Error(strings.Join(wrong, "\n"))
		}
		for _, series := range []string{`eddy_http_upgrades_total{http="ws"} 0`, `eddy_http_upgrades_total{http="ws2"} 7`} {
			if _, body := cmdtest.Get(t, metrics); !strings.Contains(body, series+"\n") {
				t.Errorf("no %s in %s", series, strings.Join(regexp.MustCompile(`eddy_http_upgrades_total.*`).FindAllString(body, -1), ", "))
			}
		}
		p.Signal(syscall.SIGTERM)
		if code := evaluate[int](t, tab, "window.lastEnd"); code != 1001 {
			t.Errorf("the page is told %d when the server goes, want 1001", code)
		}
		if code := p.Wait(); code != 0 {
			t.Errorf("exit code %d; stderr %q", code, p.Errs)
		}
	})
	site := cmdtest.StartServer(t, "serve", "http", "--addr", "127.0.0.1:0")
	for _, flags := range [][]string{nil, {"--compress"}, {"--compress", "--compress-takeover"}, {"--tls-self-signed"}, {"--tls-self-signed", "--compress"}} {
		t.Run(strings.Join(append([]string{"ws"}, flags...), " "), func(t *testing.T) {
			p := cmdtest.StartServer(t, append([]string{"serve", "ws", "--addr", "127.0.0.1:0", "--max-message", "2500000"}, flags...)...)
			openPage(t, tab, "http://"+site.Addr+"/")
			compressed := strings.Contains(strings.Join(flags, " "), "--compress")
			text := script(t, "browser_ws.js", "ADDRESS", fmt.Sprintf("%q", cmdtest.Scheme("ws", flags)+p.Addr), "COMPRESSED", fmt.Sprint(compressed))
			if wrong := evaluate[[]string](t, tab, text); len(wrong) > 0 {
				t.Error(strings.Join(wrong, "\n"))
			}
			p.Signal(syscall.SIGTERM)
			if code := evaluate[int](t, tab, "window.lastEnd"); code != 1001 {
				t.Errorf("the page is told %d when the server goes, want 1001", code)
			}
			if code := p.Wait(); code != 0 {
				t.Errorf("exit code %d; stderr %q", code, p.Errs)
			}
		})
	}
	site.Stop()
}
