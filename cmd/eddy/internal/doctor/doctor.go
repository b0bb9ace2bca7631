// Package doctor examines the machine that a server is to run on. It says whether the machine grants what a number of
// connections needs, and what to do where it does not.
package doctor

import (
	"fmt"
	"strings"
)

// A Verdict is the outcome of one check.
type Verdict string

// Verdicts.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn" // works, but not as well or as safely as it could
	Fail Verdict = "fail" // does not work
	Skip Verdict = "skip" // not asked for, or the system has no such thing
)

// Question says what the machine is to be fit for. A zero value leaves its part out.
type Question struct {
	Conns   int    // connections of a server; 0: as many as there may be
	Port    int    // to listen on
	TLSCert string // PEM files
	TLSKey  string
	DataDir string // of a Desk
}

// A Finding is what one check found.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`
	Remedy  []Step  `json:"remedy,omitempty"` // any of them helps, unless Where says otherwise
}

// Step is something to type or to write into a file.
type Step struct {
	Where string `json:"where"`
	Do    string `json:"do"`
}

// A Report is the outcome of all checks.
type Report struct {
	System   string    `json:"system"`
	Conns    int       `json:"conns,omitempty"`
	Healthy  bool      `json:"healthy"` // nothing fails
	Findings []Finding `json:"findings"`
}

// Examine runs all checks, in the order of the report. It writes nothing but a temporary file in the data directory, which it removes.
func Examine(s System, q Question) Report {
	e := &exam{System: s, Question: q, began: s.Clock()}
	r := Report{System: e.describe(), Conns: q.Conns, Healthy: true}
	for _, check := range []func() []Finding{
		e.descriptors, e.backlog, e.ports, e.memory, e.memoryBudget, e.tcpMemory, e.processors, e.pollers, e.tls, e.data, e.port, e.clock,
	} {
		r.Findings = append(r.Findings, check()...)
	}
	for _, f := range r.Findings {
		r.Healthy = r.Healthy && f.Verdict != Fail
	}
	return r
}

// exam is one examination.
type exam struct {
	System
	Question
	began Instant
}

func (e *exam) describe() string {
	name := e.OS()
	if release, err := e.Sysctl("kernel.osrelease"); err == nil {
		name += " " + release
	} else if release, err := e.Sysctl("kern.osrelease"); err == nil {
		name += " " + release
	}
	return fmt.Sprintf("%s, %s", name, count(e.Processors(), "processor"))
}

// one makes the finding of a check that has only one.
func one(check string, v Verdict, found string, remedy ...Step) []Finding {
	return []Finding{{Check: check, Verdict: v, Found: found, Remedy: remedy}}
}

// absent returns the finding of a check whose facts this system does not report.
func (e *exam) absent(check string, err error) []Finding {
	return one(check, Skip, fmt.Sprintf("not known on this system: %v", err))
}

// asRoot returns a command for the administrator.
func asRoot(command string) Step { return Step{"as root", command} }

// setSysctl returns the steps that set a value of the kernel now and at every start.
func setSysctl(name, value string) []Step {
	typed := value
	if strings.Contains(value, " ") {
		typed = "'" + value + "'"
	}
	return []Step{
		{"as root, until the next start", fmt.Sprintf("sysctl -w %s=%s", name, typed)},
		{"to keep it, a line in /etc/sysctl.d/90-eddy.conf", fmt.Sprintf("%s = %s", name, value)},
	}
}

// worse returns the worse of two verdicts.
func worse(a, b Verdict) Verdict {
	rank := map[Verdict]int{Skip: 0, OK: 1, Warn: 2, Fail: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}
