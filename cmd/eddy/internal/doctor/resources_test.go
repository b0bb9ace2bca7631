package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"
)

const (
	mountsV2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
	mountsV1 = "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
)

// under puts the machine's process into control groups.
func under(member, mounts string, files map[string]string) func(*fake) {
	return func(f *fake) {
		f.files["/proc/self/cgroup"], f.files["/proc/self/mountinfo"] = member, "24 23 0:6 / /dev rw - devtmpfs dev rw\ngarbled\n"+mounts
		for name, text := range files {
			f.files["/sys/fs/cgroup/"+name] = text
		}
	}
}

func TestMemory(t *testing.T) {
	service := "0::/system.slice/desk.service\n"
	run(t, []verdictCase{
		{name: "open question", check: "memory", want: OK, found: []string{"16.0 GiB, 12.0 GiB of it available", "room for 1,537,408 idle connections"}},
		{name: "enough", ask: Question{Conns: 100_000}, check: "memory", want: OK, found: []string{"100,000 connections, idle, need 912.4 MiB in a Desk", "583.3 MiB on the bare engine"}},
		{name: "TLS needs more", ask: Question{Conns: 100_000, TLSCert: "c", TLSKey: "k"}, check: "memory", want: OK, found: []string{"over TLS", "1.7 GiB in a Desk"}},
		{name: "too much only over TLS", ask: Question{Conns: 800_000, TLSCert: "c", TLSKey: "k"}, check: "memory", want: Warn, found: []string{"little is left"}, remedy: []string{"--max-conns 783"}},
		{name: "as many without", ask: Question{Conns: 800_000}, check: "memory", want: OK},
		{name: "other programs", change: func(f *fake) { f.files["/proc/meminfo"] = "MemTotal: 16777216 kB\nMemAvailable: 1024 kB\n" }, ask: Question{Conns: 1000}, check: "memory", want: Warn,
			found: []string{"other programs have taken too much"}, remedy: []string{"ps -eo rss,pid,args --sort=-rss"}},
		{name: "tight", ask: Question{Conns: 1_600_000}, check: "memory", want: Warn, found: []string{"little is left"}, remedy: []string{"--max-conns 1537408"}},
		{name: "too many", ask: Question{Conns: 2_000_000}, check: "memory", want: Fail, remedy: []string{"a machine with 20.8 GiB, or fewer connections: --max-conns 1537408"}},
		{name: "control group", change: under(service, mountsV2, map[string]string{"system.slice/desk.service/memory.max": "536870912\n"}), ask: Question{Conns: 100_000}, check: "memory", want: Fail,
			found:  []string{"this control group may use 512.0 MiB (/sys/fs/cgroup/system.slice/desk.service/memory.max)"},
			remedy: []string{"in the systemd unit: MemoryMax=1141M", "docker run --memory 1141m", "--max-conns 40736"}},
		{name: "control group, open question", change: under(service, mountsV2, map[string]string{"system.slice/desk.service/memory.max": "536870912\n"}), check: "memory", want: OK, found: []string{"room for 40,736 idle"}},
		{name: "the group above", change: under(service, mountsV2, map[string]string{"system.slice/desk.service/memory.max": "max\n", "system.slice/memory.high": "104857600\n"}), ask: Question{Conns: 10_000}, check: "memory",
			want: Fail, found: []string{"system.slice/memory.high"}, remedy: []string{"MemoryMax="}},
		{name: "no limit", change: under(service, mountsV2, map[string]string{"system.slice/desk.service/memory.max": "max\n"}), ask: Question{Conns: 1000}, check: "memory", want: OK},
		{name: "version 1", change: under("4:memory:/docker/abc\n", mountsV1, map[string]string{"memory/docker/abc/memory.limit_in_bytes": "104857600\n"}), ask: Question{Conns: 10_000}, check: "memory", want: Fail,
			found: []string{"100.0 MiB (/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes)"}, remedy: []string{"MemoryMax="}},
		{name: "version 1, none", change: under("4:memory:/\n", mountsV1, map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712\n"}), ask: Question{Conns: 10_000}, check: "memory", want: OK},
		{name: "a container sees the path of its host", change: under("4:memory:/docker/abc\n", "31 23 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			map[string]string{"memory/memory.limit_in_bytes": "104857600\n"}), ask: Question{Conns: 10_000}, check: "memory", want: Fail, remedy: []string{"MemoryMax="}},
		{name: "a group below that of the container", change: under("4:memory:/docker/abc/in\n", "31 23 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			map[string]string{"memory/in/memory.limit_in_bytes": "104857600\n"}), ask: Question{Conns: 10_000}, check: "memory", want: Fail, found: []string{"memory/in/memory.limit"}, remedy: []string{"MemoryMax="}},
		{name: "no numbers", change: func(f *fake) { f.files["/proc/meminfo"] = "nothing\nMemTotal: much\n" }, check: "memory", want: Skip, found: []string{"names no MemTotal"}},
		{name: "macOS", machine: func() *fake { return bsd("darwin") }, ask: Question{Conns: 3_000_000}, check: "memory", want: Fail, remedy: []string{"a machine with"}},
		{name: "Windows", machine: windowsMachine, ask: Question{Conns: 1000}, check: "memory", want: OK, found: []string{"16.0 GiB"}},
	})
}

func TestMemoryBudget(t *testing.T) {
	group := under("0::/a\n", mountsV2, map[string]string{"a/memory.max": "536870912\n"})
	run(t, []verdictCase{
		{name: "machine", check: "memory budget", want: OK, found: []string{"may hold 4.0 GiB together, a quarter of 16.0 GiB (the machine's memory)", "--memory-budget"}},
		{name: "control group", change: group, check: "memory budget", want: OK, found: []string{"128.0 MiB", "512.0 MiB (/sys/fs/cgroup/a/memory.max)"}},
		{name: "Go's limit", change: func(f *fake) { group(f); f.golimit = 100 << 20 }, check: "memory budget", want: OK, found: []string{"25.0 MiB", "GOMEMLIMIT"}},
		{name: "macOS", machine: func() *fake { return bsd("darwin") }, check: "memory budget", want: OK, found: []string{"4.0 GiB"}},
		{name: "nothing is known", change: func(f *fake) { f.files, f.ram = nil, 0 }, check: "memory budget", want: Warn, found: []string{"no bound"}, remedy: []string{"--memory-budget 256MiB"}},
	})
}

func TestTCPMemory(t *testing.T) {
	set := func(text string) func(*fake) { return func(f *fake) { f.sysctls["net.ipv4.tcp_mem"] = text } }
	run(t, []verdictCase{
		{name: "plenty", ask: Question{Conns: 100_000}, check: "TCP memory", want: OK, found: []string{"sparing from 1.5 GiB", "2.2 GiB at most"}},
		{name: "exactly enough", change: set("1 1000 2000"), ask: Question{Conns: 1000}, check: "TCP memory", want: OK},
		{name: "too little", change: set("1 1000 2000"), ask: Question{Conns: 3000}, check: "TCP memory", want: Warn, remedy: []string{"sysctl -w net.ipv4.tcp_mem='3000 4000 6000'", "net.ipv4.tcp_mem = 3000 4000 6000"}},
		{name: "garbled", change: set("x"), check: "TCP memory", want: Warn},
		{name: "Windows", machine: windowsMachine, check: "TCP memory", want: Skip},
	})
}

func TestProcessors(t *testing.T) {
	v2 := func(quota, stat string) func(*fake) {
		return under("0::/a\n", mountsV2, map[string]string{"a/cpu.max": quota, "a/cpu.stat": stat})
	}
	procs := func(n int, then func(*fake)) func(*fake) {
		return func(f *fake) { then(f); f.procs = n }
	}
	none := func(*fake) {}
	run(t, []verdictCase{
		{name: "as usual", check: "processors", want: OK, found: []string{"8 processors usable, GOMAXPROCS 8"}},
		{name: "too many threads", change: procs(9, none), check: "processors", want: Warn, remedy: []string{"GOMAXPROCS=8"}},
		{name: "no quota", change: v2("max 100000\n", ""), check: "processors", want: OK},
		{name: "quota of as many", change: v2("800000 100000\n", ""), check: "processors", want: OK, found: []string{"the time of 8 processors (/sys/fs/cgroup/a/cpu.max)"}},
		{name: "part of the last one", change: procs(2, v2("150000 100000\n", "")), check: "processors", want: OK, found: []string{"the time of 1.5 processors"}},
		{name: "less than GOMAXPROCS", change: v2("250000 100000\n", "nr_periods 40\nnr_throttled 7\nthrottled\n"), check: "processors", want: Warn, found: []string{"stopped in 7 of 40 periods", "up to 100 ms"},
			remedy: []string{"in the systemd unit: CPUQuota=800%", "docker run --cpus 8", "GOMAXPROCS=2"}},
		{name: "half a processor", change: procs(2, v2("50000 100000\n", "")), check: "processors", want: Warn, remedy: []string{"GOMAXPROCS=1"}},
		{name: "the lowest of all groups", change: under("0::/a/b\n", mountsV2, map[string]string{"a/b/cpu.max": "800000 100000", "a/cpu.max": "100000 100000"}), check: "processors", want: Warn,
			found: []string{"the time of 1 processors (/sys/fs/cgroup/a/cpu.max)"}, remedy: []string{"GOMAXPROCS=1"}},
		{name: "version 1", change: under("1:cpu,cpuacct:/a\n", mountsV1, map[string]string{"cpu,cpuacct/a/cpu.cfs_quota_us": "100000", "cpu,cpuacct/a/cpu.cfs_period_us": "50000"}), check: "processors", want: Warn,
			found: []string{"the time of 2 processors"}, remedy: []string{"GOMAXPROCS=2"}},
		{name: "version 1, none", change: under("1:cpu,cpuacct:/a\n", mountsV1, map[string]string{"cpu,cpuacct/a/cpu.cfs_quota_us": "-1", "cpu,cpuacct/a/cpu.cfs_period_us": "50000"}), check: "processors", want: OK},
		{name: "version 1, no period", change: under("1:cpu,cpuacct:/a\n", mountsV1, map[string]string{"cpu,cpuacct/a/cpu.cfs_quota_us": "5"}), check: "processors", want: OK},
		{name: "macOS", machine: func() *fake { return bsd("darwin") }, check: "processors", want: OK, found: []string{"this system has no control groups"}},
	})
}

func TestPollers(t *testing.T) {
	broken := errors.New("operation not permitted")
	breaks := func(names ...string) func(*fake) {
		return func(f *fake) {
			f.broken = map[string]error{}
			for _, n := range names {
				f.broken[n] = broken
			}
		}
	}
	chosen := func(name string) func(*fake) { return func(f *fake) { f.env[pollerVariable] = name } }
	run(t, []verdictCase{
		{name: "all", check: "pollers", want: OK, found: []string{"epoll, poll, select, net work; epoll is used"}},
		{name: "the best one is broken", change: breaks("epoll"), check: "pollers", want: Fail, found: []string{"poll, select, net work; epoll does not: operation not permitted"}, remedy: []string{"EDDY_POLLER=poll"}},
		{name: "another one is broken", change: breaks("select"), check: "pollers", want: Warn, found: []string{"select does not"}},
		{name: "all are broken", change: breaks("epoll", "poll", "select", "net"), check: "pollers", want: Fail, found: []string{"none work"}},
		{name: "unknown", change: chosen("iocp"), check: "pollers", want: Fail, found: []string{`EDDY_POLLER is "iocp"`}, remedy: []string{"epoll, poll, select, net"}},
		{name: "select, few", change: chosen("select"), ask: Question{Conns: 824}, check: "pollers", want: OK, found: []string{"select is used"}},
		{name: "select, many", change: chosen("select"), ask: Question{Conns: 825}, check: "pollers", want: Fail, found: []string{"from 1024 on"}, remedy: []string{"unset EDDY_POLLER"}},
		{name: "poll, many", change: chosen("poll"), ask: Question{Conns: 5000}, check: "pollers", want: Warn, found: []string{"its cost grows"}, remedy: []string{"unset EDDY_POLLER"}},
		{name: "poll, few", change: chosen("poll"), ask: Question{Conns: 500}, check: "pollers", want: OK},
		{name: "too few watches", change: func(f *fake) { f.sysctls["fs.epoll.max_user_watches"] = "9999" }, ask: Question{Conns: 10_000}, check: "pollers", want: Fail, remedy: []string{"fs.epoll.max_user_watches=12500"}},
		{name: "enough watches", change: func(f *fake) { f.sysctls["fs.epoll.max_user_watches"] = "10000" }, ask: Question{Conns: 10_000}, check: "pollers", want: OK},
		{name: "macOS", machine: func() *fake { return bsd("darwin") }, ask: Question{Conns: 10_000}, check: "pollers", want: OK, found: []string{"kqueue is used"}},
		{name: "Windows", machine: windowsMachine, ask: Question{Conns: 10_000}, check: "pollers", want: OK, found: []string{"net work; net is used"}},
	})
}

func TestClock(t *testing.T) {
	wall := today.UnixNano()
	readings := func(all ...Instant) func(*fake) { return func(f *fake) { f.now = all } }
	source := func(name string) func(*fake) {
		return func(f *fake) {
			f.files[clockSource+"current_clocksource"], f.files[clockSource+"available_clocksource"] = name+"\n", "hpet kvm-clock\n"
		}
	}
	coarseSteps := []Instant{{wall, 0}}
	for i := range int64(clockSteps + 2) {
		coarseSteps = append(coarseSteps, Instant{wall + i*2e6, i * 2e6})
	}
	run(t, []verdictCase{
		{name: "as usual", check: "clock", want: OK, found: []string{"finest step seen 50ns, from tsc"}},
		{name: "goes back", change: readings(Instant{wall, 5000}, Instant{wall, 6000}, Instant{wall, 5500}), check: "clock", want: Fail, found: []string{"went back by 500ns"}},
		{name: "coarse", change: readings(coarseSteps...), check: "clock", want: Warn, found: []string{"finest step seen 2ms, coarser than 1ms"}},
		{name: "jumps", change: readings(Instant{wall, 1000}, Instant{wall + int64(time.Hour), 2000}), check: "clock", want: Warn, found: []string{"jumped by 1h0m0s"}},
		{name: "jumps back", change: readings(Instant{wall, 1000}, Instant{wall - int64(time.Hour), 2000}), check: "clock", want: Warn, found: []string{"jumped by -1h0m0s"}},
		{name: "is slewed", change: readings(Instant{wall, 1000}, Instant{wall + int64(time.Millisecond), 2000}), check: "clock", want: OK},
		{name: "slow source", change: source("hpet"), check: "clock", want: Warn, found: []string{"from hpet, which takes a system call"}, remedy: []string{"as root: echo kvm-clock > /sys/devices/system/clocksource/clocksource0/current_clocksource"}},
		{name: "nobody sets it", change: func(f *fake) { f.synced = false }, check: "clock", want: Warn, found: []string{"follows no time server"}, remedy: []string{"timedatectl set-ntp true"}},
		{name: "Windows", machine: windowsMachine, check: "clock", want: OK},
	})
	f := &stoppedClock{healthy()}
	if got, _ := findingOf(Examine(f, Question{}), "clock"); got.Verdict != Fail {
		t.Errorf("a clock that stands still: %+v", got)
	}
}

type stoppedClock struct{ *fake }

func (stoppedClock) Clock() Instant { return Instant{Wall: 1, Mono: 1} }

func TestData(t *testing.T) {
	there := func(then func(*fake)) func(*fake) {
		return func(f *fake) {
			f.modes["/srv"], f.modes["/srv/desk"], f.modes["/"] = fs.ModeDir|0o755, fs.ModeDir|0o700, fs.ModeDir|0o755
			if then != nil {
				then(f)
			}
		}
	}
	disk := func(v Volume) func(*fake) { return there(func(f *fake) { f.volume = v }) }
	desk := Question{DataDir: "/srv/desk"}
	run(t, []verdictCase{
		{name: "not asked", check: "data", want: Skip},
		{name: "good", change: there(nil), ask: desk, check: "data", want: OK, found: []string{"/srv/desk can be written and locked, a sync takes 1ms"}},
		{name: "to be made", change: there(nil), ask: Question{DataDir: "/srv/a/b"}, check: "data", want: OK, found: []string{"/srv/a/b does not exist and can be made"}},
		{name: "others may look", change: there(func(f *fake) { f.modes["/srv/desk"] = fs.ModeDir | 0o750 }), ask: desk, check: "data", want: Warn, found: []string{"mode 0750"}, remedy: []string{"chmod 700 /srv/desk"}},
		{name: "a file", change: there(func(f *fake) { f.modes["/srv/desk"] = 0o600 }), ask: desk, check: "data", want: Fail, found: []string{"is a file"}, remedy: []string{"a directory"}},
		{name: "nothing there", change: there(func(f *fake) { f.modes = nil }), ask: desk, check: "data", want: Fail, found: []string{"nor anything above it"}},
		{name: "not writable", change: there(func(f *fake) { f.tryErr = fs.ErrPermission }), ask: desk, check: "data", want: Fail, found: []string{"/srv/desk cannot be written: permission denied"},
			remedy: []string{"StateDirectory=eddy-desk", "chown -R USER /srv/desk"}},
		{name: "no locks", change: there(func(f *fake) { f.trial.LockFree = true }), ask: desk, check: "data", want: Fail, found: []string{"the same lock twice"}, remedy: []string{"a disk of this machine"}},
		{name: "slow", change: there(func(f *fake) { f.trial.Sync = time.Second }), ask: desk, check: "data", want: Warn, found: []string{"a sync takes 1s, which every message waits for"}},
		{name: "no figures of the disk", change: there(func(f *fake) { f.volumeErr = errors.New("statfs") }), ask: desk, check: "data", want: OK},
		{name: "space", change: there(nil), ask: desk, check: "data disk", want: OK, found: []string{"100.0 GiB free on ext4"}},
		{name: "little space", change: disk(Volume{"xfs", goodDisk - 1}), ask: desk, check: "data disk", want: Warn, found: []string{"below 2.0 GiB"}},
		{name: "no space", change: disk(Volume{"xfs", leastDisk - 1}), ask: desk, check: "data disk", want: Fail, found: []string{"256.0 MiB are the least"}},
		{name: "network", change: disk(Volume{"nfs", 1 << 40}), ask: desk, check: "data disk", want: Warn, found: []string{"on nfs: SQLite does not keep its promises"}, remedy: []string{"a disk of this machine"}},
		{name: "memory", change: disk(Volume{"tmpfs", 1 << 40}), ask: desk, check: "data disk", want: Warn, found: []string{"all is lost when the machine stops"}, remedy: []string{"or a volume"}},
		{name: "container", change: disk(Volume{"overlayfs", 1 << 40}), ask: desk, check: "data disk", want: Warn, found: []string{"all is lost with the container"}, remedy: []string{"or a volume"}},
	})
}

// TestDataTriesWhatIsThere: nothing is made for the examination of a directory that does not exist.
func TestDataTriesWhatIsThere(t *testing.T) {
	f := healthy()
	f.modes["/srv"] = fs.ModeDir | 0o755
	Examine(f, Question{DataDir: "/srv/a/b/c"})
	if fmt.Sprint(f.tried) != "[/srv]" {
		t.Errorf("tried to write in %v", f.tried)
	}
}
