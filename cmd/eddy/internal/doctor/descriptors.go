package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// spareFiles is how many descriptors a server has besides its connections: pollers, listeners, the reserve, the
	// database, files under way.
	spareFiles = 200

	fewConns = 1000 // less than this is said aloud
)

// descriptors checks the limit of a process and that of the machine.
func (e *exam) descriptors() []Finding {
	return append(e.processFiles(), e.machineFiles()...)
}

func (e *exam) processFiles() []Finding {
	const check = "descriptors"
	soft, hard, err := e.FileLimit()
	if err != nil {
		return e.absent(check, err)
	}
	found := "soft limit " + limit(soft) + ", hard limit " + limit(hard)
	if used, err := e.OpenFiles(); err == nil {
		found += fmt.Sprintf(", %d open in this process", used)
	}
	need := uint64(e.Conns + spareFiles)
	usable := soft // Go has raised it to the hard limit where it may
	switch {
	case e.Conns == 0 && usable < fewConns+spareFiles:
		return one(check, Warn, fmt.Sprintf("%s: room for %s only", found, count(room(usable), "connection")), e.raiseFiles(fewConns+spareFiles)...)
	case e.Conns == 0:
		return one(check, OK, fmt.Sprintf("%s: room for %s; a service has the limits of its unit, not these", found, count(room(usable), "connection")))
	case usable < need:
		return one(check, Fail, fmt.Sprintf("%s; %s and %d more files need %s", found, count(e.Conns, "connection"), spareFiles, number(need)), e.raiseFiles(need)...)
	}
	return one(check, OK, fmt.Sprintf("%s; %s are needed. A service has the limits of its unit, not these", found, number(need)))
}

// room returns how many connections fit.
func room(files uint64) int {
	return int(min(files, 1<<40)) - min(spareFiles, int(min(files, 1<<40)))
}

// raiseFiles returns ways to have that many descriptors.
func (e *exam) raiseFiles(need uint64) []Step {
	var first []Step
	if most, err := e.sysctlNumber("fs.nr_open"); err == nil && most < need {
		first = setSysctl("fs.nr_open", strconv.FormatUint(need, 10))
		first[0].Where = "first, as root (a hard limit is at most that)"
	}
	switch e.OS() {
	case "linux":
		return append(first,
			Step{"in the systemd unit", fmt.Sprintf("LimitNOFILE=%d", need)},
			Step{"of a container", fmt.Sprintf("docker run --ulimit nofile=%d", need)},
			Step{"in a root shell that starts the program", fmt.Sprintf("ulimit -n %d", need)},
			Step{"for logins, a line in /etc/security/limits.conf", fmt.Sprintf("* - nofile %d", need)})
	case "darwin":
		return []Step{{"as root, until the next start", fmt.Sprintf("launchctl limit maxfiles %d %d", need, need)}}
	case "windows":
		return nil
	}
	return []Step{
		{"as root, until the next start", fmt.Sprintf("sysctl kern.maxfilesperproc=%d", need)},
		{"in a root shell that starts the program", fmt.Sprintf("ulimit -n %d", need)},
	}
}

func (e *exam) machineFiles() []Finding {
	const check = "machine files"
	if e.OS() != "linux" {
		return e.bsdFiles(check)
	}
	text, err := e.Sysctl("fs.file-nr")
	if err != nil {
		return e.absent(check, err)
	}
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return one(check, Warn, fmt.Sprintf("fs.file-nr is %.60q, not three numbers", text))
	}
	used, err1 := strconv.ParseUint(fields[0], 10, 64)
	most, err2 := strconv.ParseUint(fields[2], 10, 64)
	if err1 != nil || err2 != nil {
		return one(check, Warn, fmt.Sprintf("fs.file-nr is %.60q, not three numbers", text))
	}
	found := fmt.Sprintf("fs.file-max %s, %s in use", limit(most), number(used))
	if perProcess, err := e.sysctlNumber("fs.nr_open"); err == nil {
		found += fmt.Sprintf("; fs.nr_open %s", number(perProcess))
	}
	need := used + uint64(e.Conns) + spareFiles
	if most < need {
		return one(check, Fail, fmt.Sprintf("%s; %s are needed", found, number(need)), setSysctl("fs.file-max", strconv.FormatUint(need+need/4, 10))...)
	}
	return one(check, OK, found)
}

// bsdFiles is machineFiles of macOS and FreeBSD.
func (e *exam) bsdFiles(check string) []Finding {
	most, err := e.sysctlNumber("kern.maxfiles")
	if err != nil {
		return e.absent(check, err)
	}
	need := uint64(e.Conns + spareFiles)
	found := "kern.maxfiles " + number(most)
	if most < need {
		return one(check, Fail, fmt.Sprintf("%s; %s are needed", found, number(need)), asRoot(fmt.Sprintf("sysctl kern.maxfiles=%d", need+need/4)))
	}
	return one(check, OK, found)
}

// sysctlNumber returns a value of the kernel as a number.
func (e *exam) sysctlNumber(name string) (uint64, error) {
	text, err := e.Sysctl(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %.60q, no number", name, text)
	}
	return n, nil
}
