package sys

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread that ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocks: the thread ends here
		f()
	}()
	<-done
}

func TestSetAffinity(t *testing.T) {
	onThread(func() {
		var old, got unix.CPUSet
		if err := unix.SchedGetaffinity(0, &old); err != nil {
			t.Error(err)
			return
		}
		cpu := 0
		for !old.IsSet(cpu) {
			cpu++
		}
		if err := SetAffinity([]int{cpu}); err != nil {
			t.Error(err)
			return
		}
		if err := unix.SchedGetaffinity(0, &got); err != nil || got.Count() != 1 || !got.IsSet(cpu) {
			t.Errorf("affinity to %d CPUs, want CPU %d, %v", got.Count(), cpu, err)
		}
		if now := runningOn(t); now != cpu {
			t.Errorf("running on CPU %d, want %d", now, cpu)
		}
	})
}

// runningOn asks the kernel for the CPU of the calling thread.
func runningOn(t *testing.T) int {
	var cpu, node uint32
	_, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), uintptr(unsafe.Pointer(&node)), 0)
	if errno != 0 {
		t.Error(errno)
	}
	return int(cpu)
}

// TestAffinityErrors: a CPU that does not exist is named, alone or among good
// ones, and the thread stays where it was.
func TestAffinityErrors(t *testing.T) {
	onThread(func() {
		var old, now unix.CPUSet
		if err := unix.SchedGetaffinity(0, &old); err != nil {
			t.Error(err)
			return
		}
		good := 0
		for !old.IsSet(good) {
			good++
		}
		const none = 1023 // no test machine has as many
		for _, c := range []struct {
			cpus  []int
			names string
		}{
			{nil, "no CPU"},
			{[]int{-1}, "-1"},
			{[]int{1024}, "from 0 to 1023"},
			{[]int{none}, fmt.Sprint(none)},
			{[]int{good, none}, fmt.Sprintf("CPU %d:", none)},
		} {
			if err := SetAffinity(c.cpus); err == nil || !strings.HasPrefix(err.Error(), "sys: affinity to") || !strings.Contains(err.Error(), c.names) {
				t.Errorf("%v: %v", c.cpus, err)
			}
			if err := unix.SchedGetaffinity(0, &now); err != nil || now != old {
				t.Errorf("%v changed the thread (%v)", c.cpus, err)
			}
		}
	})
}
