// Package allowance tells how much of the machine this process may use: its control groups, and its memory.
package allowance

import (
	"errors"
	"math"
	"path"
	"strconv"
	"strings"
)

// Unlimited means that there is no limit.
const Unlimited = math.MaxUint64

// none and more mean no limit. Version 1 of the control groups, and other systems, write such a number instead.
const none = 1 << 62

// Files reads a file of /proc or /sys, as os.ReadFile does. Tests replace it.
type Files func(path string) ([]byte, error)

// Number returns the number in a file; "max" is Unlimited.
func (f Files) Number(name string) (uint64, error) {
	text, err := f(name)
	if err != nil {
		return 0, err
	}
	word := strings.TrimSpace(string(text))
	if word == "max" {
		return Unlimited, nil
	}
	return strconv.ParseUint(word, 10, 64)
}

// Meminfo returns the machine's memory and what of it is available, in bytes. Linux only.
func (f Files) Meminfo() (total, available uint64, err error) {
	text, err := f("/proc/meminfo")
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
		return 0, 0, errors.New("/proc/meminfo names no MemTotal")
	}
	return total, available, nil
}

// GroupMemory returns the lowest memory limit of the control groups and the file that contains it; Unlimited and ""
// without a limit.
func (f Files) GroupMemory() (bytes uint64, file string) {
	bytes = Unlimited
	for _, g := range f.Groups("memory") {
		names := []string{"memory.max", "memory.high"}
		if g.Version == 1 {
			names = []string{"memory.limit_in_bytes"}
		}
		for _, dir := range g.Dirs {
			for _, name := range names {
				if n, err := f.Number(path.Join(dir, name)); err == nil && n < bytes && n < none {
					bytes, file = n, path.Join(dir, name)
				}
			}
		}
	}
	return bytes, file
}

// GoLimit is the Source of a limit that the Go runtime keeps to by itself.
const GoLimit = "GOMEMLIMIT"

// Memory is the most that this process may use.
type Memory struct {
	Bytes  uint64 // Unlimited when nothing is known
	Source string // where the number comes from
}

// Least returns the lowest of three limits: Go's own, as debug.SetMemoryLimit(-1) returns it, the control groups' and
// the machine's memory. machine returns the machine's memory where the files do not have it.
func (f Files) Least(golimit int64, machine func() (uint64, error)) Memory {
	m := Memory{Bytes: Unlimited}
	atMost := func(bytes uint64, source string) {
		if bytes < m.Bytes {
			m = Memory{bytes, source}
		}
	}
	total, _, err := f.Meminfo()
	if err != nil {
		total, err = machine()
	}
	if err == nil && total > 0 {
		atMost(total, "the machine's memory")
	}
	atMost(f.GroupMemory())
	if golimit > 0 && golimit != math.MaxInt64 { // 0 asks for constant collection
		atMost(uint64(golimit), GoLimit)
	}
	return m
}

// share is the part of the memory that connections may hold unless their server says otherwise. Their bytes lie in
// buffers with slack, the kernel queues as much again, and the program needs the rest.
const share = 4

// Budget returns how many bytes the connections of a server may hold together unless the server says otherwise; 0 when
// nothing is known.
func (m Memory) Budget() int {
	if m.Bytes == Unlimited {
		return 0
	}
	return int(min(m.Bytes/share, math.MaxInt))
}
