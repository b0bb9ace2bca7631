package doctor

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestMachine asks the real machine for every fact.
func TestMachine(t *testing.T) {
	m := Machine()
	if m.OS() != runtime.GOOS || m.Processors() < 1 || m.MaxProcs() < 1 {
		t.Errorf("%s, %d processors, GOMAXPROCS %d", m.OS(), m.Processors(), m.MaxProcs())
	}
	for _, name := range m.Pollers() {
		if err := m.TryPoller(name); err != nil {
			t.Errorf("poller %s: %v", name, err)
		}
	}
	if m.TryPoller("iocp") == nil {
		t.Error("a poller that does not exist works")
	}
	a, b := m.Clock(), m.Clock()
	if b.Mono < a.Mono || a.Wall == 0 {
		t.Errorf("clock: %+v, then %+v", a, b)
	}
	soft, hard, err := m.FileLimit()
	if err == nil && (soft == 0 || hard < soft) || err != nil && !missing(err) {
		t.Errorf("file limits %d and %d, %v", soft, hard, err)
	}
	if n, err := m.OpenFiles(); err == nil && n < 1 || err != nil && !missing(err) {
		t.Errorf("%d open files, %v", n, err)
	}
	if total, err := m.Memory(); err == nil && total < 1<<20 || err != nil && !missing(err) {
		t.Errorf("%d bytes of memory, %v", total, err)
	}
	if _, err := m.Sysctl("kernel.no_such_thing"); !missing(err) {
		t.Errorf("a value that does not exist: %v", err)
	}
	if v, err := m.Volume(t.TempDir()); err == nil && v.Free == 0 || err != nil && !missing(err) {
		t.Errorf("volume %+v, %v", v, err)
	}
	if _, err := m.Synchronised(); err != nil && !missing(err) {
		t.Errorf("synchronised: %v", err)
	}
	t.Setenv("EDDY_DOCTOR_TEST", "x")
	if m.Getenv("EDDY_DOCTOR_TEST") != "x" {
		t.Error("the environment is another")
	}
}

// TestMachineTries: a directory is tried by writing, a port by listening, and nothing is left behind.
func TestMachineTries(t *testing.T) {
	m, dir := Machine(), t.TempDir()
	trial, err := m.TryDir(dir)
	if err != nil || trial.LockFree {
		t.Errorf("trial %+v, %v", trial, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := m.TryDir(filepath.Join(dir, "no")); err == nil || strings.Contains(err.Error(), dir) {
		t.Errorf("a directory that does not exist: %v", err)
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := m.Listen(port); err == nil {
		t.Error("a port can be had twice")
	}
	f := healthy()
	f.listenErr = m.Listen(port)
	if got, _ := findingOf(Examine(f, Question{Port: port}), "port"); !strings.Contains(got.Found, "in use by another program") {
		t.Errorf("finding %+v of %v", got, f.listenErr)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Listen(0); err != nil {
		t.Errorf("no port at all: %v", err)
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, make([]byte, largestFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ReadFile(big); err == nil {
		t.Error("a file of any size is read")
	}
}
