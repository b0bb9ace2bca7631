package doctor

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"math"
	"path"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// fake is a machine as a test wants it.
type fake struct {
	os         string
	env        map[string]string
	files      map[string]string
	modes      map[string]fs.FileMode
	sysctls    map[string]string
	soft, hard uint64
	limitErr   error
	cpus       int
	procs      int
	ram        uint64
	golimit    int64
	pollers    []string
	broken     map[string]error
	now        []Instant // readings of the clock; the last one goes on in steps of 50 ns
	synced     bool
	syncErr    error
	roots      *x509.CertPool
	rootsErr   error
	listenErr  error
	trial      Trial
	tryErr     error
	tried      []string
	volume     Volume
	volumeErr  error
}

var today = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// healthy is a Linux machine that has enough of everything.
func healthy() *fake {
	return &fake{
		os: "linux", env: map[string]string{},
		files: map[string]string{
			"/proc/meminfo":                     "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   12582912 kB\n",
			clockSource + "current_clocksource": "tsc\n",
		},
		modes: map[string]fs.FileMode{},
		sysctls: map[string]string{
			"kernel.osrelease": "6.1.0", "fs.file-nr": "1000\t0\t9223372036854775807", "fs.nr_open": "1048576",
			"net.core.somaxconn": "65535", "net.ipv4.tcp_max_syn_backlog": "2048", "net.ipv4.tcp_syncookies": "1",
			"net.ipv4.ip_local_port_range": "32768\t60999", "net.ipv4.ip_local_reserved_ports": "",
			"net.ipv4.tcp_mem": "287901\t383868\t575802", "fs.epoll.max_user_watches": "5000000",
		},
		soft: 200_000, hard: 200_000, cpus: 8, procs: 8, ram: 16 << 30, golimit: math.MaxInt64,
		pollers: []string{"epoll", "poll", "select", "net"}, synced: true,
		now:    []Instant{{Wall: today.UnixNano(), Mono: 1000}},
		roots:  x509.NewCertPool(),
		trial:  Trial{Sync: time.Millisecond},
		volume: Volume{Type: "ext4", Free: 100 << 30},
	}
}

// bsd is such a machine with another system.
func bsd(os string) *fake {
	f := healthy()
	f.os, f.files, f.pollers, f.syncErr = os, nil, []string{"kqueue", "poll", "select", "net"}, errors.ErrUnsupported
	f.sysctls = map[string]string{
		"kern.osrelease": "25.0", "kern.maxfiles": "500000", "kern.ipc.somaxconn": "4096", "kern.ipc.soacceptqueue": "4096",
		"net.inet.ip.portrange.first": "49152", "net.inet.ip.portrange.last": "65535",
	}
	f.volume.Type = "apfs"
	return f
}

// windowsMachine is one that tells little.
func windowsMachine() *fake {
	f := healthy()
	f.os, f.files, f.pollers, f.syncErr, f.limitErr = "windows", nil, []string{"net"}, errors.ErrUnsupported, errors.ErrUnsupported
	f.sysctls, f.volume.Type = nil, ""
	return f
}

func (f *fake) OS() string                              { return f.os }
func (f *fake) Getenv(name string) string               { return f.env[name] }
func (f *fake) FileLimit() (soft, hard uint64, _ error) { return f.soft, f.hard, f.limitErr }
func (f *fake) OpenFiles() (int, error)                 { return 9, f.limitErr }
func (f *fake) Processors() int                         { return f.cpus }
func (f *fake) MaxProcs() int                           { return f.procs }
func (f *fake) Memory() (uint64, error)                 { return f.ram, nil }
func (f *fake) MemoryLimit() int64                      { return f.golimit }
func (f *fake) Pollers() []string                       { return f.pollers }
func (f *fake) TryPoller(name string) error             { return f.broken[name] }
func (f *fake) Synchronised() (bool, error)             { return f.synced, f.syncErr }
func (f *fake) Roots() (*x509.CertPool, error)          { return f.roots, f.rootsErr }
func (f *fake) Listen(int) error                        { return f.listenErr }
func (f *fake) Volume(string) (Volume, error)           { return f.volume, f.volumeErr }

func (f *fake) ReadFile(name string) ([]byte, error) {
	if text, ok := f.files[name]; ok {
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Stat knows the files, and those of modes; a mode with fs.ModeDir is a directory's.
func (f *fake) Stat(name string) (fs.FileInfo, error) {
	mode, ok := f.modes[name]
	if _, file := f.files[name]; !ok && !file {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	if !ok {
		mode = 0o600
	}
	return fs.Stat(fstest.MapFS{path.Base(name): {Mode: mode}}, path.Base(name))
}

func (f *fake) Sysctl(name string) (string, error) {
	if text, ok := f.sysctls[name]; ok {
		return text, nil
	}
	return "", fs.ErrNotExist
}

func (f *fake) Clock() Instant {
	at := f.now[0]
	if len(f.now) > 1 {
		f.now = f.now[1:]
		return at
	}
	f.now[0].Mono += 50
	f.now[0].Wall += 50
	return at
}

func (f *fake) TryDir(dir string) (Trial, error) {
	f.tried = append(f.tried, dir)
	return f.trial, f.tryErr
}

// verdictCase is one machine, one question, and what the finding of a check must be.
type verdictCase struct {
	name    string
	machine func() *fake // nil: healthy
	change  func(*fake)  // nil: as it is
	ask     Question
	check   string
	want    Verdict
	found   []string // words of what was found
	remedy  []string // of the steps, "where: do"; nil: none
}

// run holds the findings of each case against it.
func run(t *testing.T, cases []verdictCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			make := c.machine
			if make == nil {
				make = healthy
			}
			f := make()
			if c.change != nil {
				c.change(f)
			}
			r := Examine(f, c.ask)
			got, ok := findingOf(r, c.check)
			if !ok {
				t.Fatalf("no finding of %q in %+v", c.check, r.Findings)
			}
			if got.Verdict != c.want {
				t.Errorf("verdict %s, want %s: %s", got.Verdict, c.want, got.Found)
			}
			for _, words := range c.found {
				if !strings.Contains(got.Found, words) {
					t.Errorf("%q does not say %q", got.Found, words)
				}
			}
			var steps []string
			for _, s := range got.Remedy {
				steps = append(steps, s.Where+": "+s.Do)
			}
			if len(c.remedy) == 0 && len(steps) > 0 {
				t.Errorf("a remedy nobody needs: %q", steps)
			}
			for _, want := range c.remedy {
				if !strings.Contains(strings.Join(steps, "\n"), want) {
					t.Errorf("no remedy %q in %q", want, steps)
				}
			}
			if r.Healthy != !hasFailure(r) {
				t.Errorf("healthy is %v with %+v", r.Healthy, r.Findings)
			}
		})
	}
}

func findingOf(r Report, check string) (Finding, bool) {
	for _, f := range r.Findings {
		if f.Check == check {
			return f, true
		}
	}
	return Finding{}, false
}

func hasFailure(r Report) bool {
	for _, f := range r.Findings {
		if f.Verdict == Fail {
			return true
		}
	}
	return false
}
