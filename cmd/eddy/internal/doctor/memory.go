package doctor

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
)

// Bytes of memory that an idle connection takes, as measured: docs/install.md, "How much memory", says where and how.
const (
	engineBytes    = 440  // three handlers and an idle deadline
	httpBytes      = 1373 // keep-alive, a net/http handler on a pool
	webSocketBytes = 1883
	deskBytes      = 3891 // a visitor of Desk with a chat
	tlsBytes       = 8567 // more with TLS
	kernelBytes    = 5005 // the kernel's socket, file and entry of the poller; nothing queued

	baseBytes = 64 << 20 // the program itself
	fullest   = 0.8      // of the memory; the rest is for what is queued, and for garbage
)

// memory holds what the connections of a Desk need against what there is.
func (e *exam) memory() []Finding {
	const check = "memory"
	total, available, err := e.ram()
	if err != nil {
		return e.absent(check, err)
	}
	most, found := total, fmt.Sprintf("%s, %s of it available", size(total), size(available))
	capped, where := e.memoryLimit()
	if capped < total {
		most = capped
		available = min(available, capped)
		found += fmt.Sprintf("; this control group may use %s (%s)", size(capped), where)
	}
	if e.Conns == 0 {
		each := e.bytesPerConn()
		room := max(0, int64(float64(most)*fullest)-baseBytes) / int64(each)
		return one(check, OK, fmt.Sprintf("%s: room for %s idle connections of a Desk at %s each, kernel included", found, number(uint64(room)), number(each)))
	}
	need := baseBytes + uint64(e.Conns)*e.bytesPerConn()
	found += "; " + e.needs()
	switch {
	case need > most:
		return one(check, Fail, found, e.moreMemory(need, capped < total)...)
	case float64(need) > fullest*float64(most):
		return one(check, Warn, found+"; little is left for what is queued", e.moreMemory(need, capped < total)...)
	case need > available:
		return one(check, Warn, found+"; other programs have taken too much", Step{"to see them", "ps -eo rss,pid,args --sort=-rss | head"})
	}
	return one(check, OK, found)
}

// bytesPerConn is what one idle connection of a Desk takes, in the program and in the kernel.
func (e *exam) bytesPerConn() uint64 {
	each := uint64(deskBytes + kernelBytes)
	if e.TLSCert != "" {
		each += tlsBytes
	}
	return each
}

// needs says what the connections need, by what they are.
func (e *exam) needs() string {
	extra, with := uint64(kernelBytes), ""
	if e.TLSCert != "" {
		extra, with = extra+tlsBytes, " over TLS"
	}
	all := func(each uint64) string { return size(baseBytes + uint64(e.Conns)*(each+extra)) }
	return fmt.Sprintf("%s%s, idle, need %s in a Desk, %s as WebSockets, %s as HTTP, %s on the bare engine, kernel included",
		count(e.Conns, "connection"), with, all(deskBytes), all(webSocketBytes), all(httpBytes), all(engineBytes))
}

// moreMemory are the ways to have that much.
func (e *exam) moreMemory(need uint64, capped bool) []Step {
	want := uint64(math.Ceil(float64(need) / fullest / (1 << 20)))
	if !capped {
		return []Step{{"needed", fmt.Sprintf("a machine with %s, or fewer connections: --max-conns %d", size(want<<20), e.fits())}}
	}
	return []Step{
		{"in the systemd unit", fmt.Sprintf("MemoryMax=%dM", want)},
		{"of a container", fmt.Sprintf("docker run --memory %dm", want)},
		{"or fewer connections", fmt.Sprintf("--max-conns %d", e.fits())},
	}
}

// fits is how many connections the memory takes.
func (e *exam) fits() int64 {
	total, _, _ := e.ram()
	capped, _ := e.memoryLimit()
	return max(1, int64(float64(min(total, capped))*fullest)-baseBytes) / int64(e.bytesPerConn())
}

// ram returns the machine's memory and what of it is available.
func (e *exam) ram() (total, available uint64, err error) {
	if e.OS() != "linux" {
		total, err = e.Memory()
		return total, total, err
	}
	text, err := e.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, err := strconv.ParseUint(fields[1], 10, 54)
		switch {
		case err != nil:
		case fields[0] == "MemTotal:":
			total = kib << 10
		case fields[0] == "MemAvailable:":
			available = kib << 10
		}
	}
	if total == 0 {
		return 0, 0, fmt.Errorf("/proc/meminfo names no MemTotal")
	}
	return total, available, nil
}

// memoryLimit returns the lowest limit of the control groups, and the file that has it; Unlimited without one.
func (e *exam) memoryLimit() (uint64, string) {
	lowest, where := uint64(Unlimited), ""
	for _, g := range e.cgroups("memory") {
		files := []string{"memory.max", "memory.high"}
		if g.version == 1 {
			files = []string{"memory.limit_in_bytes"}
		}
		for _, dir := range g.dirs {
			for _, file := range files {
				n, err := e.fileNumber(path.Join(dir, file))
				if err == nil && n < lowest && n < 1<<62 { // version 1 writes "none" as a number near 2^63
					lowest, where = n, path.Join(dir, file)
				}
			}
		}
	}
	return lowest, where
}

// fileNumber is the number in a file of /proc or /sys; "max" is Unlimited.
func (e *exam) fileNumber(name string) (uint64, error) {
	text, err := e.ReadFile(name)
	if err != nil {
		return 0, err
	}
	word := strings.TrimSpace(string(text))
	if word == "max" {
		return Unlimited, nil
	}
	return strconv.ParseUint(word, 10, 64)
}

const queuedEach = 4096 // bytes that a connection queues in the kernel on average: one small message, with the kernel's overhead

// tcpMemory checks how much all connections of the machine may have queued in the kernel.
func (e *exam) tcpMemory() []Finding {
	const check = "TCP memory"
	text, err := e.Sysctl("net.ipv4.tcp_mem")
	if e.OS() != "linux" || err != nil {
		return one(check, Skip, "this system has no limit of it")
	}
	var low, pressure, high uint64
	if _, err := fmt.Sscan(text, &low, &pressure, &high); err != nil {
		return one(check, Warn, fmt.Sprintf("net.ipv4.tcp_mem is %.60q, not three numbers", text))
	}
	const page = 4096 // the least that a page has; with larger ones there is more room
	found := fmt.Sprintf("tcp_mem: sparing from %s queued in all sockets, %s at most", size(pressure*page), size(high*page))
	if need := uint64(e.Conns) * queuedEach / page; need > pressure {
		found += fmt.Sprintf("; %s that queue %s each need %s", count(e.Conns, "connection"), size(queuedEach), size(need*page))
		return one(check, Warn, found, setSysctl("net.ipv4.tcp_mem", fmt.Sprintf("%d %d %d", need, need*4/3, need*2))...)
	}
	return one(check, OK, found)
}
