package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
)

const (
	leastBacklog = 1024
	mostBacklog  = 65535

	// ephemeral is the range that docs/tuning.md proposes.
	ephemeral = "10240 65535"
)

// backlogFor returns the accept queue that a server of n connections should have: a tenth of them. After a restart all
// of them come back within some seconds, and a loop that is stalled for a second must not lose any.
func backlogFor(n int) uint64 { return uint64(min(max(n/10, leastBacklog), mostBacklog)) }

// backlog checks the queues in which connections wait for the server.
func (e *exam) backlog() []Finding {
	const check = "listen queue"
	name := map[string]string{"linux": "net.core.somaxconn", "darwin": "kern.ipc.somaxconn", "freebsd": "kern.ipc.soacceptqueue"}[e.OS()]
	if name == "" {
		return one(check, Skip, "this system has no setting for it")
	}
	accept, err := e.sysctlNumber(name)
	if err != nil {
		return e.absent(check, err)
	}
	need := backlogFor(e.Conns)
	verdict, found := OK, fmt.Sprintf("%s %s", name, number(accept))
	var remedy []Step
	if accept < need {
		verdict = Warn
		found += fmt.Sprintf(", %s are better: when more arrive at once, they connect 1 s and more later, or are refused", number(need))
		remedy = setSysctl(name, strconv.FormatUint(need, 10))
	}
	if e.OS() != "linux" {
		return one(check, verdict, found, remedy...)
	}
	handshakes, err := e.sysctlNumber("net.ipv4.tcp_max_syn_backlog")
	if err != nil {
		return one(check, verdict, found, remedy...)
	}
	found += fmt.Sprintf("; tcp_max_syn_backlog %s", number(handshakes))
	cookies, err := e.sysctlNumber("net.ipv4.tcp_syncookies")
	switch {
	case err != nil:
	case cookies == 0:
		verdict = worse(verdict, Warn)
		found += "; SYN cookies are off, so a flood of half-open connections locks others out"
		remedy = append(remedy, setSysctl("net.ipv4.tcp_syncookies", "1")...)
		if handshakes < need {
			remedy = append(remedy, setSysctl("net.ipv4.tcp_max_syn_backlog", strconv.FormatUint(need, 10))...)
		}
	default:
		found += ", beyond it SYN cookies"
	}
	return one(check, verdict, found, remedy...)
}

// ports checks the source ports of connections that leave this machine.
func (e *exam) ports() []Finding {
	const check = "source ports"
	first, last, err := e.portRange()
	if err != nil {
		return e.absent(check, err)
	}
	if last < first || last > 65535 {
		return one(check, Warn, fmt.Sprintf("the range is %d to %d, which is none", first, last))
	}
	n := last - first + 1
	verdict, found := OK, fmt.Sprintf("%d to %d: %s outgoing connections for each source address and destination", first, last, number(n))
	var remedy []Step
	if uint64(e.Conns) > n {
		addresses := (uint64(e.Conns) + n - 1) / n
		verdict = Warn
		found += fmt.Sprintf(". A server needs none, a proxy or load generator with %s to one destination needs %d source addresses", count(e.Conns, "connection"), addresses)
		if e.OS() == "linux" && n < 55296 {
			remedy = setSysctl("net.ipv4.ip_local_port_range", ephemeral)
		}
	}
	if p := uint64(e.Port); p >= first && p <= last && !e.reserved(p) {
		verdict = Warn
		found += fmt.Sprintf(". Port %d lies in it: an outgoing connection may have it when the server starts", p)
		if e.OS() == "linux" {
			remedy = append(remedy, setSysctl("net.ipv4.ip_local_reserved_ports", strconv.FormatUint(p, 10))...)
		}
	}
	return one(check, verdict, found, remedy...)
}

func (e *exam) portRange() (first, last uint64, err error) {
	if e.OS() == "linux" {
		text, err := e.Sysctl("net.ipv4.ip_local_port_range")
		if err != nil {
			return 0, 0, err
		}
		if _, err := fmt.Sscan(text, &first, &last); err != nil {
			return 0, 0, fmt.Errorf("net.ipv4.ip_local_port_range is %.60q, not two numbers", text)
		}
		return first, last, nil
	}
	if first, err = e.sysctlNumber("net.inet.ip.portrange.first"); err != nil {
		return 0, 0, err
	}
	last, err = e.sysctlNumber("net.inet.ip.portrange.last")
	return first, last, err
}

// reserved reports whether the kernel keeps a port out of the range.
func (e *exam) reserved(port uint64) bool {
	text, err := e.Sysctl("net.ipv4.ip_local_reserved_ports")
	if err != nil {
		return false
	}
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		low, err1 := strconv.ParseUint(from, 10, 16)
		high, err2 := strconv.ParseUint(to, 10, 16)
		if err1 == nil && err2 == nil && low <= port && port <= high {
			return true
		}
	}
	return false
}

// port checks that the server can listen.
func (e *exam) port() []Finding {
	const check = "port"
	if e.Port == 0 {
		return one(check, Skip, "not asked: --port PORT tries to listen on it")
	}
	err := e.Listen(e.Port)
	switch {
	case err == nil:
		return one(check, OK, fmt.Sprintf("%d is free", e.Port))
	case errors.Is(err, syscall.EADDRINUSE):
		who := map[string]string{
			"linux": fmt.Sprintf("ss -ltnp 'sport = :%d'", e.Port), "windows": "netstat -ano -p tcp", "freebsd": fmt.Sprintf("sockstat -l -p %d", e.Port),
		}[e.OS()]
		if who == "" {
			who = fmt.Sprintf("lsof -nP -iTCP:%d -sTCP:LISTEN", e.Port)
		}
		return one(check, Fail, fmt.Sprintf("%d is in use by another program", e.Port), Step{"to see whose it is", who})
	case errors.Is(err, fs.ErrPermission):
		remedy := []Step{{"or choose", "a port above 1023"}}
		if e.OS() == "linux" {
			remedy = append([]Step{{"in the systemd unit", "AmbientCapabilities=CAP_NET_BIND_SERVICE"}},
				append(setSysctl("net.ipv4.ip_unprivileged_port_start", strconv.Itoa(e.Port)), remedy...)...)
		}
		return one(check, Fail, fmt.Sprintf("this user may not listen on %d", e.Port), remedy...)
	}
	return one(check, Fail, fmt.Sprintf("cannot listen on %d: %v", e.Port, err))
}
