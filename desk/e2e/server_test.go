package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// builtCommand names the product's command in the environment, for several runs
// of these tests that share one.
const builtCommand = "EDDY_E2E_COMMAND"

// binary is the product's command, built once for all tests that need it, with
// the race detector when they have it.
type binary struct {
	once sync.Once
	dir  string
	err  error
}

var command binary

func (b *binary) path() (string, error) {
	if built := os.Getenv(builtCommand); built != "" {
		return built, nil
	}
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "desk-e2e-"); b.err != nil {
			return
		}
		args := []string{"build", "-o", b.dir}
		if raceDetector {
			args = append(args, "-race")
		}
		if out, err := exec.Command("go", append(args, "github.com/go-eddy/eddy/cmd/eddy")...).CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	return filepath.Join(b.dir, "eddy"), b.err
}

// run is all tests of a run and the end of their browsers.
type run struct{ *testing.M }

func (r run) Run() int {
	code := r.M.Run()
	for _, c := range []*chromium{&shared, &whole} {
		if c.stop != nil {
			c.stop()
		}
	}
	return code
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(run{m}, goleak.Cleanup(func(code int) {
		if command.dir != "" {
			os.RemoveAll(command.dir)
		}
		os.Exit(code)
	}))
}

// desk is "eddy desk" as a process of its own, on one address and one data
// directory for as many starts as the test wants.
type desk struct {
	t        *testing.T
	addr     string
	data     string
	login    string
	password string
	flags    []string

	cmd  *exec.Cmd
	out  *testkit.Output
	exit chan error
}

// newDesk starts a desk whose router gives nobody anything, because most tests are not about it.
func newDesk(t *testing.T, flags ...string) *desk {
	return routedDesk(t, store.Manual, flags...)
}

func routedDesk(t *testing.T, routing string, flags ...string) *desk {
	t.Helper()
	d := &desk{t: t, addr: lastingAddr(t), data: t.TempDir(), flags: append([]string{"--routing", routing}, flags...)}
	t.Cleanup(func() {
		if d.cmd != nil {
			d.stop()
		}
	})
	d.start()
	d.credentials()
	return d
}

// lastingAddr returns a free address that stays free while its desk is started again. A port that the system chooses would not: when
// nobody listens on it, another program may be given it.
func lastingAddr(t *testing.T) string {
	t.Helper()
	const first, chosen = 15_000, 32_000 // from there on the system chooses
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", first+rand.IntN(chosen-first))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal(err)
	return ""
}

func (d *desk) url(path string) string { return "http://" + d.addr + path }

// start runs the server and returns when it is ready. The first time it chooses a port itself, which stays.
func (d *desk) start() {
	d.t.Helper()
	path, err := command.path()
	if err != nil {
		d.t.Fatal(err)
	}
	d.out = &testkit.Output{}
	d.cmd = exec.Command(path, append([]string{"desk", "--addr", d.addr, "--data", d.data}, d.flags...)...)
	d.cmd.Env = append(os.Environ(), "EDDY_DESK_PASSWORD_MEMORY=7MiB") // the least: passwords took a third of the server's time
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.out
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.exit = make(chan error, 1)
	go func(cmd *exec.Cmd, exit chan<- error) { exit <- cmd.Wait() }(d.cmd, d.exit)
	d.eventually("prints its address", func() bool {
		m := printedAddr.FindStringSubmatch(d.out.String())
		if m != nil && d.addr != m[1] { // the first time: from then on visitors read it
			d.addr = m[1]
		}
		return m != nil
	})
	d.waitReady()
}

func (d *desk) waitReady() {
	d.t.Helper()
	client := &http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	d.eventually("is ready", func() bool {
		res, err := client.Get(d.url("/readyz"))
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// printedAddr finds the address that every start prints.
var printedAddr = regexp.MustCompile(`agent console\s+http://(\S+)/console\s`)

// printed finds the account that the first start prints.
var printed = regexp.MustCompile(`login\s+(\S+)\s+password\s+(\S+)\s`)

func (d *desk) credentials() {
	d.t.Helper()
	d.eventually("prints the first account", func() bool {
		m := printed.FindStringSubmatch(d.out.String())
		if m != nil {
			d.login, d.password = m[1], m[2]
		}
		return m != nil
	})
}

// eventually waits for a condition of the running process.
func (d *desk) eventually(what string, condition func() bool) {
	d.t.Helper()
	testkit.Eventually(d.t, "the desk "+what, func() bool {
		select {
		case err := <-d.exit:
			d.cmd = nil
			d.t.Fatalf("the desk ended before it %s: %v\n%s", what, err, d.out)
		default:
		}
		return condition()
	})
}

// stop asks the server to end, as an operator does, and waits for it.
func (d *desk) stop() { d.end(syscall.SIGTERM) }

// kill ends the server without a word.
func (d *desk) kill() { d.end(syscall.SIGKILL) }

func (d *desk) end(signal syscall.Signal) {
	d.t.Helper()
	_ = d.cmd.Process.Signal(signal)
	select {
	case <-d.exit:
	case <-time.After(testkit.Patience):
		_ = d.cmd.Process.Kill()
		<-d.exit
		d.t.Errorf("the desk did not end after %v\n%s", signal, d.out)
	}
	d.cmd = nil
	for _, bad := range []string{"DATA RACE", "panic:"} {
		if strings.Contains(d.out.String(), bad) {
			d.t.Errorf("the desk printed %q:\n%s", bad, d.out)
		}
	}
}
