package doctor

import (
	"fmt"
	"math"

	"github.com/go-eddy/eddy/internal/allowance"
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
	fullest   = 0.8      // usable share of the memory; the rest is for queued data and garbage
)

// memory compares what the connections of a Desk need with the memory there is.
func (e *exam) memory() []Finding {
	const check = "memory"
	total, available, err := e.ram()
	if err != nil {
		return e.absent(check, err)
	}
	most, found := total, fmt.Sprintf("%s, %s of it available", size(total), size(available))
	capped, where := e.files().GroupMemory()
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

// bytesPerConn returns the memory of one idle connection of a Desk, in the program and in the kernel.
func (e *exam) bytesPerConn() uint64 {
	each := uint64(deskBytes + kernelBytes)
	if e.TLSCert != "" {
		each += tlsBytes
	}
	return each
}

// needs says how much memory the connections need, by their kind.
func (e *exam) needs() string {
	extra, with := uint64(kernelBytes), ""
	if e.TLSCert != "" {
		extra, with = extra+tlsBytes, " over TLS"
	}
	all := func(each uint64) string { return size(baseBytes + uint64(e.Conns)*(each+extra)) }
	return fmt.Sprintf("%s%s, idle, need %s in a Desk, %s as WebSockets, %s as HTTP, %s on the bare engine, kernel included",
		count(e.Conns, "connection"), with, all(deskBytes), all(webSocketBytes), all(httpBytes), all(engineBytes))
}

// moreMemory returns ways to have that much memory.
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

// fits returns how many connections the memory takes.
func (e *exam) fits() int64 {
	total, _, _ := e.ram()
	capped, _ := e.files().GroupMemory()
	return max(1, int64(float64(min(total, capped))*fullest)-baseBytes) / int64(e.bytesPerConn())
}

// files returns the files in which the system describes itself.
func (e *exam) files() allowance.Files { return e.ReadFile }

// ram returns the machine's memory and how much of it is available.
func (e *exam) ram() (total, available uint64, err error) {
	if e.OS() != "linux" {
		total, err = e.Memory()
		return total, total, err
	}
	return e.files().Meminfo()
}

// memoryBudget reports what the connections of a server may hold by default.
func (e *exam) memoryBudget() []Finding {
	const check = "memory budget"
	m := e.files().Least(e.MemoryLimit(), e.Memory)
	if m.Bytes == Unlimited {
		return one(check, Warn, "this system does not tell its memory: what connections queue has no bound", Step{"in the command that starts the server", "--memory-budget 256MiB"})
	}
	return one(check, OK, fmt.Sprintf("the connections of a server may hold %s together, a quarter of %s (%s); --memory-budget changes that", size(uint64(m.Budget())), size(m.Bytes), m.Source))
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
