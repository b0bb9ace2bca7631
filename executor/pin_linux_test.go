package executor

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPinnedWorkers: each worker runs on a thread that may use its processor only, in turn; after a task that ended its
// goroutine the new one does, too.
func TestPinnedWorkers(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < min(2, all.Count()); cpu++ {
		if all.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	p := newPool(t, Options{Workers: 4, CPUs: cpus})
	seen := make(chan int, 4)
	gate := make(chan struct{})
	for range 4 {
		if err := p.SubmitFunc(func() { seen <- boundTo(t); <-gate }); err != nil {
			t.Fatal(err)
		}
	}
	count := map[int]int{}
	for range 4 {
		count[<-seen]++
	}
	close(gate)
	for _, cpu := range cpus {
		if count[cpu] != 4/len(cpus) {
			t.Errorf("processor %d has %d of 4 workers on %v", cpu, count[cpu], cpus)
		}
	}
}

// boundTo returns the one processor that the calling thread may use, -1 when there are several.
func boundTo(t *testing.T) int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Error(err)
	}
	if set.Count() != 1 {
		return -1
	}
	for cpu := 0; ; cpu++ {
		if set.IsSet(cpu) {
			return cpu
		}
	}
}

// TestUnavailableCPU: a processor that is not there is an error of the pool that names it.
func TestUnavailableCPU(t *testing.T) {
	if _, err := NewFixed(Options{CPUs: []int{1023}}); err == nil || !strings.Contains(err.Error(), "Options.CPUs: sys: affinity to CPU [1023]") {
		t.Errorf("NewFixed = %v", err)
	}
}
