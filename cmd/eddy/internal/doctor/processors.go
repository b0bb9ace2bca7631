package doctor

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
)

// processors compares GOMAXPROCS, and so the number of loops, with the processor time that the control groups allow.
func (e *exam) processors() []Finding {
	const check = "processors"
	procs, cpus := e.MaxProcs(), e.Processors()
	found := fmt.Sprintf("%s usable, GOMAXPROCS %d, which is the number of loops", count(cpus, "processor"), procs)
	quota, where := e.files().Processors()
	if where == "" {
		if procs > cpus {
			return one(check, Warn, found+"; more threads than processors only wait for each other", lessProcs(cpus))
		}
		if e.OS() != "linux" {
			found += "; this system has no control groups"
		}
		return one(check, OK, found)
	}
	found += fmt.Sprintf("; the control group allows the time of %.2g processors (%s)", quota, where)
	if stopped, periods := e.throttled(path.Dir(where)); stopped > 0 {
		found += fmt.Sprintf("; it was stopped in %s of %s periods", number(stopped), number(periods))
	}
	if float64(procs) <= math.Ceil(quota) {
		return one(check, OK, found)
	}
	return one(check, Warn, found+": when it is used up, all loops stop until the next period, up to 100 ms",
		Step{"in the systemd unit", fmt.Sprintf("CPUQuota=%d%%", procs*100)},
		Step{"of a container", fmt.Sprintf("docker run --cpus %d", procs)},
		lessProcs(max(1, int(quota))))
}

func lessProcs(n int) Step {
	return Step{"or in the environment of the program", fmt.Sprintf("GOMAXPROCS=%d", n)}
}

// throttled returns in how many periods a control group has used up its time.
func (e *exam) throttled(dir string) (stopped, periods uint64) {
	text, err := e.ReadFile(path.Join(dir, "cpu.stat"))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		n, _ := strconv.ParseUint(fields[1], 10, 64)
		switch fields[0] {
		case "nr_throttled":
			stopped = n
		case "nr_periods":
			periods = n
		}
	}
	return stopped, periods
}
