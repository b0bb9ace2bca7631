package doctor

import (
	"fmt"
	"slices"
	"strings"
)

const (
	pollerVariable = "EDDY_POLLER"
	selectFiles    = 1024 // select(2) ends at this descriptor
)

// pollers opens each backend. The best one must work, or the one that the environment chooses.
func (e *exam) pollers() []Finding {
	const check = "pollers"
	names := e.Pollers()
	chosen := names[0]
	if v := e.Getenv(pollerVariable); v != "" {
		chosen = v
	}
	if !slices.Contains(names, chosen) {
		return one(check, Fail, fmt.Sprintf("%s is %q, which %s does not have", pollerVariable, chosen, e.OS()),
			Step{"in the environment, one of", strings.Join(names, ", ")})
	}
	verdict, working := OK, []string(nil)
	var broken string
	for _, name := range names {
		err := e.TryPoller(name)
		if err == nil {
			working = append(working, name)
			continue
		}
		verdict = worse(verdict, Warn)
		if name == chosen {
			verdict = Fail
		}
		broken += fmt.Sprintf("; %s does not: %v", name, err)
	}
	found := fmt.Sprintf("%s work%s; %s is used", orNone(working), broken, chosen)
	var remedy []Step
	if verdict == Fail && len(working) > 0 {
		remedy = []Step{{"in the environment", pollerVariable + "=" + working[0]}}
	}
	f := Finding{check, verdict, found, remedy}
	e.pollerLimits(&f, chosen)
	return []Finding{f}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// pollerLimits adds the limits of a backend.
func (e *exam) pollerLimits(f *Finding, chosen string) {
	switch chosen {
	case "epoll":
		watches, err := e.sysctlNumber("fs.epoll.max_user_watches")
		if err == nil && watches < uint64(e.Conns) {
			f.Verdict = Fail
			f.Found += fmt.Sprintf("; fs.epoll.max_user_watches %s is less than %s", number(watches), count(e.Conns, "connection"))
			f.Remedy = append(f.Remedy, setSysctl("fs.epoll.max_user_watches", fmt.Sprint(e.Conns+e.Conns/4))...)
		}
	case "select":
		if e.Conns > selectFiles-spareFiles {
			f.Verdict = Fail
			f.Found += fmt.Sprintf("; select cannot watch descriptors from %d on", selectFiles)
			f.Remedy = append(f.Remedy, Step{"in the environment", "unset " + pollerVariable})
		}
	case "poll", "net":
		if e.Conns > fewConns && e.Pollers()[0] != chosen {
			f.Verdict = worse(f.Verdict, Warn)
			f.Found += fmt.Sprintf("; its cost grows with the connections, %s's does not", e.Pollers()[0])
			f.Remedy = append(f.Remedy, Step{"in the environment", "unset " + pollerVariable})
		}
	}
}
