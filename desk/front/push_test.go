package front

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// The console names its manifest, and alone may load it and a service worker. The worker may be registered for the console
// and for nothing else, is asked for each time, and loads nothing but pictures.
func TestConsoleCanBeInstalled(t *testing.T) {
	f := open(t, Options{})
	_, resp := call(f, "GET", "/console", "")
	policy := withoutNonce(resp.Header)
	want := "manifest-src 'self'; worker-src 'self'; " + strings.Replace(contentPolicy, "trusted-types 'none'", "trusted-types eddy-console", 1)
	if policy != want {
		t.Errorf("the console: %q, want %q", policy, want)
	}
	page := body(t, resp)
	manifest := regexp.MustCompile(`rel="manifest" href="(/assets/console\.[0-9a-f]{12}\.webmanifest)"`).FindStringSubmatch(page)
	if manifest == nil || !regexp.MustCompile(`rel="apple-touch-icon" href="/assets/app-512\.[0-9a-f]{12}\.png"`).MatchString(page) {
		t.Fatal(page)
	}
	status, resp := call(f, "GET", manifest[1], "")
	var m struct{ Icons []struct{ Src, Type string } }
	if err := json.Unmarshal([]byte(body(t, resp)), &m); status != http.StatusOK || err != nil || resp.Header.Get("Content-Type") != "application/manifest+json" || len(m.Icons) == 0 {
		t.Errorf("the manifest: %d %v %v", status, resp.Header, err)
	}
	for _, icon := range m.Icons {
		if status, resp := call(f, "GET", icon.Src, ""); status != http.StatusOK || resp.Header.Get("Content-Type") != icon.Type {
			t.Errorf("%s: %d %v", icon.Src, status, resp.Header)
		}
	}

	status, resp = call(f, "GET", "/console/worker.js", "")
	h, script := resp.Header, body(t, resp)
	if status != http.StatusOK || h.Get("Content-Type") != "text/javascript; charset=utf-8" || h.Get("Service-Worker-Allowed") != "/console" || h.Get("Cache-Control") != "no-cache" ||
		h.Get("Content-Security-Policy") != workerPolicy || !strings.Contains(script, "addEventListener('push'") {
		t.Errorf("the worker: %d %v\n%s", status, h, script)
	}
	if !strings.HasPrefix(workerPolicy, "default-src 'none';") || strings.Contains(workerPolicy, "script-src") || strings.Contains(workerPolicy, "unsafe") {
		t.Errorf("policy %q", workerPolicy)
	}
	if status, _ := call(f, "GET", "/console/worker.js", "", "If-None-Match", h.Get("ETag")); status != http.StatusNotModified {
		t.Errorf("the worker again: %d", status)
	}
	for _, path := range []string{"/", "/chat/demo", "/wall", "/assets/console-worker.js", "/reset"} {
		_, resp := call(f, "GET", path, "")
		if h := resp.Header; h.Get("Service-Worker-Allowed") != "" || strings.Contains(h.Get("Content-Security-Policy"), "worker-src") || strings.Contains(h.Get("Content-Security-Policy"), "manifest-src") {
			t.Errorf("%s: %v", path, h)
		}
	}
}
