package allowance

import (
	"errors"
	"io/fs"
	"math"
	"testing"
)

// tree holds the files of a machine.
type tree map[string]string

func (t tree) read(name string) ([]byte, error) {
	if text, ok := t[name]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

// TestLeast: the lowest of Go's limit, the limits of all control groups up the hierarchy and the machine's memory
// counts. Unknown ones do not count, and a quarter of the result is the budget.
func TestLeast(t *testing.T) {
	const machine = "the machine's memory"
	v2 := func(files tree) tree {
		files["/proc/meminfo"] = "MemTotal: 1048576 kB\nMemAvailable: 4 kB\n"
		files["/proc/self/cgroup"] = "4:memory:/docker/abc\n0::/a.slice/b.service\n"
		files["/proc/self/mountinfo"] = "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n31 23 0:27 / /cg1 rw - cgroup cgroup rw,memory\n"
		return files
	}
	unknown := func() (uint64, error) { return 0, errors.ErrUnsupported }
	for _, c := range []struct {
		name    string
		files   tree
		golimit int64
		machine func() (uint64, error)
		want    Memory
		budget  int
	}{
		{"machine", v2(tree{}), math.MaxInt64, unknown, Memory{1 << 30, machine}, 256 << 20},
		{"group", v2(tree{"/cg/a.slice/b.service/memory.max": "4096\n"}), math.MaxInt64, unknown, Memory{4096, "/cg/a.slice/b.service/memory.max"}, 1024},
		{"group above", v2(tree{"/cg/a.slice/b.service/memory.max": "max\n", "/cg/a.slice/memory.max": "4096\n"}), math.MaxInt64, unknown, Memory{4096, "/cg/a.slice/memory.max"}, 1024},
		{"group that is slowed down", v2(tree{"/cg/a.slice/memory.max": "8192\n", "/cg/a.slice/memory.high": "4096\n"}), math.MaxInt64, unknown, Memory{4096, "/cg/a.slice/memory.high"}, 1024},
		{"version 1", v2(tree{"/cg1/docker/memory.limit_in_bytes": "4096\n"}), math.MaxInt64, unknown, Memory{4096, "/cg1/docker/memory.limit_in_bytes"}, 1024},
		{"version 1, none", v2(tree{"/cg1/docker/abc/memory.limit_in_bytes": "9223372036854771712\n"}), math.MaxInt64, unknown, Memory{1 << 30, machine}, 256 << 20},
		{"group beyond the machine", v2(tree{"/cg/memory.max": "17179869184\n"}), math.MaxInt64, unknown, Memory{1 << 30, machine}, 256 << 20},
		{"Go's limit", v2(tree{"/cg/a.slice/memory.max": "8192\n"}), 4096, unknown, Memory{4096, "GOMEMLIMIT"}, 1024},
		{"Go's limit is higher", v2(tree{"/cg/a.slice/memory.max": "4096\n"}), 8192, unknown, Memory{4096, "/cg/a.slice/memory.max"}, 1024},
		{"constant collection", v2(tree{}), 0, unknown, Memory{1 << 30, machine}, 256 << 20},
		{"another system", tree{}, math.MaxInt64, func() (uint64, error) { return 4096, nil }, Memory{4096, machine}, 1024},
		{"nothing is known", tree{}, math.MaxInt64, unknown, Memory{Unlimited, ""}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Files(c.files.read).Least(c.golimit, c.machine)
			if got != c.want || got.Budget() != c.budget {
				t.Errorf("%+v, budget %d; want %+v, budget %d", got, got.Budget(), c.want, c.budget)
			}
		})
	}
}

// TestTotal: this machine has memory, where its system tells.
func TestTotal(t *testing.T) {
	if n, err := Total(); err == nil && n < 1<<20 || err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
