//go:build unix

package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/cmd/eddy/internal/desk"
	"github.com/go-eddy/eddy/cmd/eddy/internal/root"
	"github.com/go-eddy/eddy/internal/testkit"
)

// image is what the last stage of the Dockerfile makes, and the commands of the first.
type image struct {
	build                        []string
	from, user, workdir          string
	env, copies, volumes         []string
	entrypoint, command, healthy []string
}

// readImage reads the instructions that the Dockerfile uses; another one is an error of the test.
func readImage(t *testing.T) image {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var i image
	stage := 0
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "" || strings.HasPrefix(word, "#"):
		case word == "FROM":
			stage++
			i.from = rest
		case stage == 1:
			i.build = append(i.build, word+" "+rest)
		case word == "COPY":
			i.copies = append(i.copies, rest)
		case word == "ENV":
			i.env = append(i.env, strings.Fields(rest)...)
		case word == "USER":
			i.user = rest
		case word == "WORKDIR":
			i.workdir = rest
		case word == "VOLUME":
			i.volumes = append(i.volumes, rest)
		case word == "ENTRYPOINT":
			i.entrypoint = words(t, rest)
		case word == "CMD":
			i.command = words(t, rest)
		case word == "HEALTHCHECK":
			_, command, ok := strings.Cut(rest, " CMD ")
			if !ok {
				t.Errorf("HEALTHCHECK %s has no command", rest)
			}
			i.healthy = words(t, command)
		case word != "EXPOSE" && word != "STOPSIGNAL":
			t.Errorf("the test does not know %s", word)
		}
	}
	return i
}

// words reads a command in the form that needs no shell, which an image from scratch does not have.
func words(t *testing.T, text string) (all []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Errorf("%s is not a list of words: %v", text, err)
	}
	return all
}

// TestDockerfile: what the image needs without a shell is in it, and its user has no rights.
func TestDockerfile(t *testing.T) {
	i := readImage(t)
	if i.from != "scratch" || i.user != "65532:65532" || i.workdir != "/data" || !slices.Equal(i.volumes, []string{"/data"}) {
		t.Errorf("from %q as user %q in %q with volumes %q", i.from, i.user, i.workdir, i.volumes)
	}
	if !slices.Equal(i.entrypoint, []string{"/eddy"}) || !slices.Equal(i.command, []string{"desk"}) || len(i.healthy) < 2 || i.healthy[0] != "/eddy" || i.healthy[1] != "health" {
		t.Errorf("starts %q %q, is well by %q", i.entrypoint, i.command, i.healthy)
	}
	copies := strings.Join(i.copies, "\n")
	for _, want := range []string{"ca-certificates.crt /etc/ssl/certs/", "/out/eddy /eddy", "--chown=65532:65532 /out/data /data", "/out/tmp /tmp"} {
		if !strings.Contains(copies, want) {
			t.Errorf("%q is not copied into the image:\n%s", want, copies)
		}
	}
	build := strings.Join(i.build, "\n")
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "internal/version.number=$VERSION", "./cmd/eddy", "mkdir -m 700 /out/data"} {
		if !strings.Contains(build, want) {
			t.Errorf("the build does not say %q:\n%s", want, build)
		}
	}
}

// unit returns the values of a key of the unit, in their order.
func unit(t *testing.T, key string) (values []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/eddy-desk.service")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			values = append(values, value)
		}
	}
	return values
}

// TestUnit: the unit says what docs/install.md says of it, systemd understands it, and Desk knows its settings.
func TestUnit(t *testing.T) {
	for key, want := range map[string]string{
		"Type": "notify", "LimitNOFILE": "100200", "WatchdogSec": "60s", "TimeoutStopSec": "20s", "TimeoutStartSec": "30min", "DynamicUser": "yes", "StateDirectory": "eddy-desk",
		"ExecStart": "/usr/local/bin/eddy desk", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "CapabilityBoundingSet": "", "EnvironmentFile": "-/etc/default/eddy-desk",
	} {
		if got := unit(t, key); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for _, name := range append(unit(t, "Environment"), readImage(t).env...) {
		name, _, _ = strings.Cut(name, "=")
		s := desk.Command(new(cli.Terminal))
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "EDDY_DESK_"), "_", "-"))
		if s.Flags().Lookup(flag) == nil && s.PersistentFlags().Lookup(flag) == nil {
			t.Errorf("%s is no setting of Desk", name)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	text, err := os.ReadFile("../../deploy/eddy-desk.service")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "eddy-desk.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/eddy", "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(testkit.Context(t), analyze, "verify", file).CombinedOutput(); err != nil || strings.Contains(string(out), "eddy-desk.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestDeployed runs Desk with the command and the settings of the image, as its user where this one may do that, from an empty directory, and is
// the service manager of the unit: it is told when Desk can be reached, gets signs of life while it answers, and is told that it ends.
func TestDeployed(t *testing.T) {
	t.Parallel()
	i := readImage(t)
	base, err := os.MkdirTemp("", "eddy-") // a socket's name is short, and t.TempDir is for this user only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	data, socket := filepath.Join(base, "data"), filepath.Join(base, "notify")
	cmd := cmdtest.Program(i.command...)
	cmd.Dir = data
	for _, setting := range i.env {
		setting = strings.ReplaceAll(setting, "/data", data)
		cmd.Env = append(cmd.Env, strings.ReplaceAll(setting, "0.0.0.0:8080", "127.0.0.1:0"))
	}
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=3600000000") // the first sign comes at once, no other one meanwhile
	m := listenNotify(t, socket)
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		asImageUser(t, cmd, base)
	}
	p := cmdtest.StartProcess(t, cmd)
	if got := m.next(); got != "READY=1\nSTATUS=serving" {
		t.Errorf("first told %q", got)
	}
	if got := m.next(); got != "WATCHDOG=1" {
		t.Errorf("then %q", got)
	}
	var errs strings.Builder
	check := strings.ReplaceAll(strings.Join(i.healthy[1:], " "), "127.0.0.1:8080", p.Addr) + " --timeout 60s"
	if code := root.Run(strings.Fields(check), &errs, &errs, nil); code != 0 {
		t.Errorf("the health check: exit %d, %s", code, errs.String())
	}
	p.Signal(syscall.SIGTERM)
	if got := m.next(); got != "STOPPING=1\nSTATUS=draining" {
		t.Errorf("at the end %q", got)
	}
	if code := p.Wait(); code != 0 || strings.Contains(p.Errs.String(), "service manager") {
		t.Errorf("exit %d, %s", code, p.Errs)
	}
	if _, err := os.Stat(filepath.Join(data, "desk.db")); err != nil {
		t.Errorf("the data are elsewhere: %v", err)
	}
}

// asImageUser makes the command run as the user of the image, with a copy of the program that this user can read.
func asImageUser(t *testing.T, cmd *exec.Cmd, base string) {
	t.Helper()
	const user = 65532
	text, err := os.ReadFile(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = filepath.Join(base, "eddy")
	for _, err := range []error{
		os.WriteFile(cmd.Path, text, 0o755), os.Chmod(base, 0o755), os.Chown(cmd.Dir, user, user), os.Chmod(filepath.Join(base, "notify"), 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
}

// notified is a service manager: the socket that it listens on.
type notified struct {
	t *testing.T
	c *net.UnixConn
}

func listenNotify(t *testing.T, path string) *notified {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &notified{t, c}
}

// next is what the manager is told next.
func (m *notified) next() string {
	m.t.Helper()
	b := make([]byte, 4096)
	m.c.SetReadDeadline(time.Now().Add(testkit.Patience))
	n, err := m.c.Read(b)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b[:n])
}
