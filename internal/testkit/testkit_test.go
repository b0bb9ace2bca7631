package testkit

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that notes how it fails and ends its goroutine, as testing.T does.
type failing struct {
	*testing.T
	fatal, skip string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *failing) Skipf(format string, args ...any) {
	f.skip = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// ends runs what with a test that may fail and returns it when what is over.
func ends(t *testing.T, what func(testing.TB)) *failing {
	f := &failing{T: t}
	var wg sync.WaitGroup
	wg.Go(func() { what(f) })
	wg.Wait()
	return f
}

// TestEventually: a condition is checked until it holds. A condition that never does fails the test after Patience.
func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, looks := time.Now(), 0
		Eventually(t, "the fifth look", func() bool { looks++; return looks == 5 })
		if took := time.Since(begin); looks != 5 || took > time.Second {
			t.Errorf("%d looks in %v", looks, took)
		}
		begin = time.Now()
		f := ends(t, func(f testing.TB) { Eventually(f, "a miracle", func() bool { return false }) })
		if took := time.Since(begin); took < Patience || took > Patience+time.Second || !strings.Contains(f.fatal, "a miracle") {
			t.Errorf("after %v: %q", took, f.fatal)
		}
	})
}

// TestReceive: Receive returns the value that comes, and fails after Patience when none does.
func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := make(chan int, 1)
		c <- 7
		if got := Receive(t, "a number", c); got != 7 {
			t.Errorf("received %d", got)
		}
		f := ends(t, func(f testing.TB) { Receive(f, "another number", c) })
		if !strings.Contains(f.fatal, "another number") {
			t.Errorf("failed with %q", f.fatal)
		}
		<-Context(t).Done()
	})
}

// TestTool: a program that is there is found under one of its names; without it the test is skipped, or fails if
// EDDY_REQUIRE names it, and only it.
func TestTool(t *testing.T) {
	if path := Tool(t, "compiler", "no-such-go", "go"); !strings.Contains(path, "go") {
		t.Errorf("found %q", path)
	}
	absent := func(f testing.TB) { Tool(f, "no-such-tool") }
	t.Setenv("EDDY_REQUIRE", "browser,no-such-tool-2")
	if f := ends(t, absent); f.fatal != "" || !strings.Contains(f.skip, "no-such-tool") {
		t.Errorf("failed with %q, skipped with %q", f.fatal, f.skip)
	}
	t.Setenv("EDDY_REQUIRE", "browser,no-such-tool")
	if f := ends(t, absent); !strings.Contains(f.fatal, "no-such-tool") {
		t.Errorf("failed with %q, skipped with %q", f.fatal, f.skip)
	}
}

// TestOutput: any goroutine writes, and nothing is lost.
func TestOutput(t *testing.T) {
	var o Output
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				fmt.Fprintln(&o, "line")
			}
		})
	}
	wg.Wait()
	if got := strings.Count(o.String(), "line\n"); got != 400 {
		t.Errorf("%d lines of 400", got)
	}
}
