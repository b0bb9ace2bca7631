package desk

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// TestDeskBackupAndRestore backs a running desk up, restores it elsewhere, and the account of the first works on the second.
func TestDeskBackupAndRestore(t *testing.T) {
	t.Parallel()
	data, account := cmdtest.MadeDesk(t)
	p := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data)
	to := filepath.Join(t.TempDir(), "backup")
	out, errs, code := cmdtest.Run(t, "desk", "backup", "--data", data, "--to", to)
	if code != 0 || !strings.Contains(out, to) {
		t.Fatalf("exit code %d, %q, %q", code, out, errs)
	}
	p.Stop()
	cmdtest.ExpectFailure(t, []string{"desk", "backup", "--data", data, "--to", to}, to, "new directory")
	cmdtest.ExpectFailure(t, []string{"desk", "restore", "--from", to, "--data", data}, data, "replace")

	other := filepath.Join(t.TempDir(), "other")
	if out, errs, code = cmdtest.Run(t, "desk", "restore", "--from", to, "--data", other); code != 0 || !strings.Contains(out, "restored "+other) {
		t.Fatalf("exit code %d, %q, %q", code, out, errs)
	}
	if out, _, code = cmdtest.Run(t, "desk", "restore", "--from", to, "--data", other, "--replace"); code != 0 || !strings.Contains(out, "before-restore-") {
		t.Fatalf("exit code %d, %q", code, out)
	}
	again := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", other)
	again.WaitOutput(again.Out, regexp.MustCompile(`/console\n`))
	greet(t, again.Addr, account[1], account[2])
	cmdtest.ExpectFailure(t, []string{"desk", "restore", "--from", to, "--data", other, "--replace"}, other, "in use")
	again.Stop()
}

func TestDeskDataCommands(t *testing.T) {
	t.Parallel()
	data, _ := cmdtest.MadeDesk(t)
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"desk", "version", "--data", data}, data + ": schema version"},
		{[]string{"desk", "version", "--data", empty}, "no data"},
		{[]string{"desk", "migrate", "--data", data}, "the newest"},
		{[]string{"desk", "migrate", "--check", "--data", data}, "the newest"},
		{[]string{"desk", "recount", "--data", data}, "are right"},
	} {
		if out, errs, code := cmdtest.Run(t, c.args...); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%q: exit code %d, %q, %q", c.args, code, out, errs)
		}
	}
	for _, c := range [][]string{
		{"migrate", empty, "--data"}, {"recount", empty, "--data"}, {"backup", empty, "data directory"}, {"restore", "--from", "name the directory"},
	} {
		cmdtest.ExpectFailure(t, []string{"desk", c[0], "--data", empty}, c[1], c[2])
	}
	cmdtest.ExpectFailure(t, []string{"desk", "restore", "--data", empty, "--from", data}, data, "no backup")
}

// TestDeskSettings gives flags in a file and in the environment: the command line wins over the environment, and that over the file.
func TestDeskSettings(t *testing.T) {
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	file := filepath.Join(dir, "desk.yaml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	version := func(env []string, args ...string) string {
		t.Helper()
		for _, e := range env {
			name, value, _ := strings.Cut(e, "=")
			t.Setenv(name, value)
		}
		out, errs, code := cmdtest.Run(t, append([]string{"desk", "version"}, args...)...)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		return out
	}
	write("addr: 127.0.0.1:0 # of the server\ndata: " + a + "\nmax-conns: 7\n")
	if out := version(nil, "--config", file); !strings.Contains(out, a+": no data") {
		t.Errorf("file: %q", out)
	}
	if out := version([]string{"EDDY_DESK_CONFIG=" + file}); !strings.Contains(out, a+": no data") {
		t.Errorf("file by environment: %q", out)
	}
	if out := version([]string{"EDDY_DESK_DATA=" + b}); !strings.Contains(out, b+": no data") {
		t.Errorf("environment: %q", out)
	}
	if out := version(nil, "--data", c); !strings.Contains(out, c+": no data") {
		t.Errorf("command line: %q", out)
	}
	p := cmdtest.StartServer(t, "desk", "--config", file) // its address and its data come from the settings
	p.WaitOutput(p.Out, regexp.MustCompile("data in "+regexp.QuoteMeta(b)))
	p.Stop()
}

func TestDeskSettingsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "desk.yaml")
	for _, c := range []struct{ content, thing, remedy string }{
		{"addr: 127.0.0.1:0\nmax-conn: 5\n", file + ":2", "max-conns"},
		{"loops: many\n", file + ":1", "number"},
		{"loops: [1, 2]\n", file + ":1", "one value"},
		{"loops: 1\nloops: 2\n", file, "line"},
		{"- loops\n", file + ":1", "name: value"},
		{"config: x\n", file + ":1", "no setting"},
		{"a: b: c\n", file, "mapping values"},
		{strings.Repeat("# comment\n", 200_000), file, "1048576"},
	} {
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		cmdtest.ExpectFailure(t, []string{"desk", "version", "--config", file, "--data", dir}, c.thing, c.remedy)
	}
	missing := filepath.Join(dir, "missing.yaml")
	cmdtest.ExpectFailure(t, []string{"desk", "version", "--config", missing}, missing, "name a file")
	t.Setenv("EDDY_DESK_MAX_CONN", "5")
	cmdtest.ExpectFailure(t, []string{"desk", "version"}, "EDDY_DESK_MAX_CONN", "EDDY_DESK_MAX_CONNS")
	os.Unsetenv("EDDY_DESK_MAX_CONN")
	t.Setenv("EDDY_DESK_LOOPS", "many")
	cmdtest.ExpectFailure(t, []string{"desk", "version"}, "EDDY_DESK_LOOPS", "number")
}

func TestDeskFlagsRefused(t *testing.T) {
	for _, c := range []struct{ args, thing, remedy string }{
		{"--trusted-proxies=10.0.0.0/8,proxy", `"proxy"`, "10.0.0.0/8"},
		{"--trusted-proxies=10.0.0.0/40", `"10.0.0.0/40"`, "10.0.0.0/8"},
		{"--keep-ip=some", `"some"`, "short"},
		{"--bus=nats://bus.example", "--bus needs --store", "alone"},
		{"--bus=http://bus.example", `"http://"`, "nats://host:4222"},
		{"--conns-per-ip=-1", "--conns-per-ip -1", "no limit"},
		{"--hsts=500ms", "--hsts is 500ms", "720h"},
		{"--hsts=-1h", "--hsts is -1h0m0s", "720h"},
		{"--public-url=desk.example", `"desk.example"`, "https://desk.example"},
		{"--public-url=https://desk.example/chat", `"https://desk.example/chat"`, "https://desk.example"},
		{"--public-url=https://a:99999", `"https://a:99999"`, "https://desk.example"},
		{"--site-visitors=-1", "--site-visitors -1", "no limit"},
		{"--away-after=1m", "--away-after is 1m0s", "2m or more"},
		{"--away-after=-1s", "--away-after is -1s", "0 for never"},
		{"--chats-per-ip=-1", "--chats-per-ip is -1", "0 for no limit"},
		{"--chats-per-ip=100001", "--chats-per-ip is 100001", "1 to 100000"},
		{"--routing=fair", `"fair"`, "round_robin"},
		{"--upload-size=20MB", `"20MB"`, "20MiB"},
		{"--upload-size=-1", `"-1"`, "20MiB"},
		{"--upload-size=9999999999GiB", `"9999999999GiB"`, "20MiB"},
		{"--upload-visitor=0", "--upload-visitor is 0", "--upload-types none"},
		{"--upload-visitor-files=0", "--upload-visitor-files is 0", "1 or more"},
		{"--upload-types=image/svg+xml", `"image/svg+xml"`, "image/png"},
		{"--upload-types=none,image/png", `"none"`, "image/png"},
		{"--upload-pace=0s", "--upload-pace is 0s", "such as 1m"},
	} {
		cmdtest.ExpectFailure(t, []string{"desk", c.args, "--addr", "127.0.0.1:0", "--data", t.TempDir()}, c.thing, c.remedy)
	}
}

// TestDeskBelievesItsProxy: behind a trusted proxy the address of a client is the one that the proxy names. A proxy on this
// machine is trusted unless others are.
func TestDeskBelievesItsProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"by default": {nil, "203.0.113.9"}, "named": {[]string{"--trusted-proxies", "127.0.0.1"}, "203.0.113.9"},
		"another": {[]string{"--trusted-proxies", "192.0.2.1"}, "127.0.0.1"}, "none": {[]string{"--trusted-proxies="}, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loginFrom(t, c.flags, c.want)
		})
	}
}

// loginFrom fails to log in through a proxy on this machine, and looks up where that came from.
func loginFrom(t *testing.T, flags []string, want string) {
	data, account := cmdtest.MadeDesk(t)
	p := cmdtest.StartServer(t, append([]string{"desk", "--addr", "127.0.0.1:0", "--data", data, "--keep-ip", "full"}, flags...)...)
	body := `{"login":"` + account[1] + `","password":"wrong"}`
	if status, text := cmdtest.Ask(t, http.MethodPost, "http://"+p.Addr+"/api/v1/agent/login", body, "X-Forwarded-For", "203.0.113.9"); status != http.StatusUnauthorized {
		t.Fatalf("status %d: %s", status, text)
	}
	p.Stop()
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(data, "desk.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Cold().Audit(t.Context(), store.AuditQuery{Action: store.AuditLoginFailed})
	if err != nil || len(rows) != 1 || rows[0].IP != want {
		t.Errorf("audit %+v, %v", rows, err)
	}
}

// TestDeskTLS runs the desk with a certificate made on the spot, and with one from files. Only that one is a promise which
// browsers may remember.
func TestDeskTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	c, err := tlsx.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	cmdtest.WritePair(t, c, certFile, keyFile)
	files := []string{"--tls-cert", certFile, "--tls-key", keyFile}
	for name, x := range map[string]struct {
		flags []string
		hsts  string
	}{
		"self-signed": {[]string{"--tls-self-signed"}, ""},
		"from files":  {files, "max-age=2592000"},
		"an hour":     {append(files, "--hsts", "1h", "--public-url", "https://desk.example/"), "max-age=3600"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, _ := cmdtest.MadeDesk(t)
			p := cmdtest.StartServer(t, append([]string{"desk", "--addr", "127.0.0.1:0", "--data", data}, x.flags...)...)
			p.WaitOutput(p.Out, regexp.MustCompile(`https://127\.0\.0\.1:\d+/console\n`))
			fingerprint := tlsx.Fingerprint(&c)
			if x.flags[0] == "--tls-self-signed" {
				fingerprint = p.Fingerprint()
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: cmdtest.Pinned(fingerprint)}, Timeout: testkit.Patience}
			r, err := client.Get("https://" + p.Addr + "/console")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			if got := r.Header.Get("Strict-Transport-Security"); r.StatusCode != http.StatusOK || r.TLS == nil || got != x.hsts {
				t.Errorf("status %d, Strict-Transport-Security %q, want %q", r.StatusCode, got, x.hsts)
			}
			client.CloseIdleConnections()
			p.Stop()
		})
	}
}
