package doctor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
)

func TestDescriptors(t *testing.T) {
	few := func(f *fake) { f.soft, f.hard = 1024, 4096 }
	run(t, []verdictCase{
		{name: "open question", check: "descriptors", want: OK, found: []string{"soft limit 200,000, hard limit 200,000, 9 open", "room for 199,800 connections"}},
		{name: "open question, few", change: few, check: "descriptors", want: Warn, found: []string{"room for 824 connections only"}, remedy: []string{"LimitNOFILE=1200"}},
		{name: "none at all", change: func(f *fake) { f.soft = 100 }, check: "descriptors", want: Warn, found: []string{"room for 0 connections"}, remedy: []string{"LimitNOFILE=1200"}},
		{name: "exactly enough", ask: Question{Conns: 199_800}, check: "descriptors", want: OK, found: []string{"200,000 are needed"}},
		{name: "one too few", ask: Question{Conns: 199_801}, check: "descriptors", want: Fail, found: []string{"199,801 connections and 200 more files need 200,001"},
			remedy: []string{"in the systemd unit: LimitNOFILE=200001", "of a container: docker run --ulimit nofile=200001", "ulimit -n 200001", "* - nofile 200001"}},
		{name: "the soft limit counts", change: few, ask: Question{Conns: 2000}, check: "descriptors", want: Fail, found: []string{"soft limit 1,024, hard limit 4,096"}, remedy: []string{"LimitNOFILE=2200"}},
		{name: "beyond nr_open", ask: Question{Conns: 2_000_000}, check: "descriptors", want: Fail,
			remedy: []string{"first, as root (a hard limit is at most that): sysctl -w fs.nr_open=2000200", "LimitNOFILE=2000200"}},
		{name: "no limit", change: func(f *fake) { f.soft, f.hard = Unlimited, Unlimited }, ask: Question{Conns: 1_000_000}, check: "descriptors", want: OK, found: []string{"hard limit none"}},
		{name: "macOS", machine: func() *fake { return bsd("darwin") }, ask: Question{Conns: 200_000}, check: "descriptors", want: Fail, remedy: []string{"launchctl limit maxfiles 200200 200200"}},
		{name: "FreeBSD", machine: func() *fake { return bsd("freebsd") }, ask: Question{Conns: 200_000}, check: "descriptors", want: Fail, remedy: []string{"sysctl kern.maxfilesperproc=200200"}},
		{name: "Windows", machine: windowsMachine, ask: Question{Conns: 200_000}, check: "descriptors", want: Skip, found: []string{"not known on this system"}},
	})
}

func TestMachineFiles(t *testing.T) {
	set := func(text string) func(*fake) { return func(f *fake) { f.sysctls["fs.file-nr"] = text } }
	run(t, []verdictCase{
		{name: "plenty", ask: Question{Conns: 100_000}, check: "machine files", want: OK, found: []string{"fs.file-max none, 1,000 in use; fs.nr_open 1,048,576"}},
		{name: "exactly enough", change: set("1000 0 11200"), ask: Question{Conns: 10_000}, check: "machine files", want: OK},
		{name: "one too few", change: set("1000 0 11199"), ask: Question{Conns: 10_000}, check: "machine files", want: Fail, found: []string{"11,200 are needed"},
			remedy: []string{"sysctl -w fs.file-max=14000", "/etc/sysctl.d/90-eddy.conf: fs.file-max = 14000"}},
		{name: "garbled", change: set("many"), check: "machine files", want: Warn, found: []string{`"many"`}},
		{name: "garbled numbers", change: set("a b c"), check: "machine files", want: Warn, found: []string{`"a b c"`}},
		{name: "not there", change: func(f *fake) { delete(f.sysctls, "fs.file-nr") }, check: "machine files", want: Skip},
		{name: "macOS", machine: func() *fake { return bsd("darwin") }, ask: Question{Conns: 500_000}, check: "machine files", want: Fail, remedy: []string{"as root: sysctl kern.maxfiles=625250"}},
		{name: "macOS, enough", machine: func() *fake { return bsd("darwin") }, ask: Question{Conns: 5000}, check: "machine files", want: OK, found: []string{"kern.maxfiles 500,000"}},
		{name: "Windows", machine: windowsMachine, check: "machine files", want: Skip},
	})
}

func TestBacklog(t *testing.T) {
	set := func(values ...string) func(*fake) {
		return func(f *fake) {
			for i, name := range []string{"net.core.somaxconn", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_max_syn_backlog"} {
				f.sysctls[name] = values[i]
			}
		}
	}
	run(t, []verdictCase{
		{name: "plenty", check: "listen queue", want: OK, found: []string{"somaxconn 65,535", "beyond it SYN cookies"}},
		{name: "least", change: set("1024", "1", "128"), check: "listen queue", want: OK},
		{name: "below the least", change: set("1023", "1", "128"), check: "listen queue", want: Warn, remedy: []string{"sysctl -w net.core.somaxconn=1024"}},
		{name: "a tenth", change: set("4096", "1", "128"), ask: Question{Conns: 40_960}, check: "listen queue", want: OK},
		{name: "less than a tenth", change: set("4096", "1", "128"), ask: Question{Conns: 50_000}, check: "listen queue", want: Warn, found: []string{"5,000 are better"}, remedy: []string{"net.core.somaxconn = 5000"}},
		{name: "the most", ask: Question{Conns: 10_000_000}, check: "listen queue", want: OK},
		{name: "no cookies", change: set("65535", "0", "512"), check: "listen queue", want: Warn, found: []string{"SYN cookies are off"}, remedy: []string{"net.ipv4.tcp_syncookies=1", "net.ipv4.tcp_max_syn_backlog=1024"}},
		{name: "no cookies, long queue", change: set("65535", "0", "2048"), check: "listen queue", want: Warn, remedy: []string{"net.ipv4.tcp_syncookies=1"}},
		{name: "not a number", change: set("lots", "1", "1"), check: "listen queue", want: Skip, found: []string{`"lots"`}},
		{name: "macOS", machine: func() *fake { return bsd("darwin") }, ask: Question{Conns: 100_000}, check: "listen queue", want: Warn, found: []string{"kern.ipc.somaxconn 4,096"}, remedy: []string{"sysctl -w kern.ipc.somaxconn=10000"}},
		{name: "FreeBSD", machine: func() *fake { return bsd("freebsd") }, check: "listen queue", want: OK, found: []string{"kern.ipc.soacceptqueue 4,096"}},
		{name: "Windows", machine: windowsMachine, check: "listen queue", want: Skip},
	})
}

func TestPorts(t *testing.T) {
	set := func(rng, reserved string) func(*fake) {
		return func(f *fake) {
			f.sysctls["net.ipv4.ip_local_port_range"], f.sysctls["net.ipv4.ip_local_reserved_ports"] = rng, reserved
		}
	}
	run(t, []verdictCase{
		{name: "as usual", check: "source ports", want: OK, found: []string{"32768 to 60999: 28,232 outgoing connections"}},
		{name: "as many as there are", ask: Question{Conns: 28_232}, check: "source ports", want: OK},
		{name: "one more", ask: Question{Conns: 28_233}, check: "source ports", want: Warn, found: []string{"needs 2 source addresses"}, remedy: []string{"sysctl -w net.ipv4.ip_local_port_range='10240 65535'"}},
		{name: "already wide", change: set("10240 65535", ""), ask: Question{Conns: 100_000}, check: "source ports", want: Warn, found: []string{"2 source addresses"}},
		{name: "server's port below", ask: Question{Port: 32767}, check: "source ports", want: OK},
		{name: "server's port within", ask: Question{Port: 32768}, check: "source ports", want: Warn, found: []string{"Port 32768 lies in it"}, remedy: []string{"net.ipv4.ip_local_reserved_ports=32768"}},
		{name: "reserved", change: set("32768 60999", "8080,40000"), ask: Question{Port: 40_000}, check: "source ports", want: OK},
		{name: "reserved range", change: set("32768 60999", "39000-41000"), ask: Question{Port: 40_000}, check: "source ports", want: OK},
		{name: "another reserved", change: set("32768 60999", "39000-39999,x"), ask: Question{Port: 40_000}, check: "source ports", want: Warn, remedy: []string{"=40000"}},
		{name: "upside down", change: set("60999 32768", ""), check: "source ports", want: Warn, found: []string{"which is none"}},
		{name: "garbled", change: set("some", ""), check: "source ports", want: Skip, found: []string{`"some"`}},
		{name: "macOS", machine: func() *fake { return bsd("darwin") }, ask: Question{Conns: 20_000}, check: "source ports", want: Warn, found: []string{"16,384"}},
		{name: "Windows", machine: windowsMachine, check: "source ports", want: Skip},
	})
}

func TestPort(t *testing.T) {
	fails := func(err error) func(*fake) {
		return func(f *fake) { f.listenErr = fmt.Errorf("listen: %w", os.NewSyscallError("bind", err)) }
	}
	run(t, []verdictCase{
		{name: "not asked", check: "port", want: Skip},
		{name: "free", ask: Question{Port: 8080}, check: "port", want: OK, found: []string{"8080 is free"}},
		{name: "taken", change: fails(syscall.EADDRINUSE), ask: Question{Port: 8080}, check: "port", want: Fail, found: []string{"in use"}, remedy: []string{"ss -ltnp 'sport = :8080'"}},
		{name: "taken, macOS", machine: func() *fake { return bsd("darwin") }, change: fails(syscall.EADDRINUSE), ask: Question{Port: 8080}, check: "port", want: Fail, remedy: []string{"lsof -nP -iTCP:8080"}},
		{name: "low", change: fails(syscall.EACCES), ask: Question{Port: 443}, check: "port", want: Fail, found: []string{"may not listen on 443"},
			remedy: []string{"AmbientCapabilities=CAP_NET_BIND_SERVICE", "net.ipv4.ip_unprivileged_port_start=443", "a port above 1023"}},
		{name: "otherwise", change: func(f *fake) { f.listenErr = errors.New("no network") }, ask: Question{Port: 443}, check: "port", want: Fail, found: []string{"no network"}},
	})
}
