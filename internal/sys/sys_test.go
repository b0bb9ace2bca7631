package sys

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestErrorClasses(t *testing.T) {
	for _, c := range []struct {
		err                     error
		limit, reset, transient bool
	}{
		{nil, false, false, false},
		{io.EOF, false, false, false},
		{ErrAgain, false, false, false},
		{syscall.EINVAL, false, false, false},
		{syscall.EBADF, false, false, false},
		{syscall.EMFILE, true, false, false},
		{syscall.ENFILE, true, false, false},
		{syscall.ENOBUFS, true, false, false},
		{syscall.ENOMEM, true, false, false},
		{syscall.ECONNRESET, false, true, true},
		{syscall.EPIPE, false, true, false},
		{syscall.ENOTCONN, false, true, false},
		{syscall.ECONNABORTED, false, true, true},
		{syscall.EINTR, false, false, true},
		{syscall.EPROTO, false, false, true},
		{fmt.Errorf("eddy: accept: %w", syscall.EMFILE), true, false, false},
		{fmt.Errorf("eddy: read: %w", syscall.ECONNRESET), false, true, true},
	} {
		if got := IsDescriptorLimit(c.err); got != c.limit {
			t.Errorf("IsDescriptorLimit(%v) = %v", c.err, got)
		}
		if got := IsReset(c.err); got != c.reset {
			t.Errorf("IsReset(%v) = %v", c.err, got)
		}
		if got := IsTransientAccept(c.err); got != c.transient {
			t.Errorf("IsTransientAccept(%v) = %v", c.err, got)
		}
	}
	if !errors.Is(ErrAgain, syscall.EAGAIN) {
		t.Error("ErrAgain is not EAGAIN")
	}
}

func TestClock(t *testing.T) {
	c := NewClock()
	first := c.Now()
	if first <= 0 {
		t.Errorf("the clock begins at %d, which callers take for never", first)
	}
	last := first
	for range 1000 {
		now := c.Now()
		if now < last {
			t.Fatalf("the clock goes back from %d to %d", last, now)
		}
		last = now
	}
	if d := time.Since(c.Wall()); d < -time.Second || d > time.Minute {
		t.Errorf("the time of day is off by %v", d)
	}
}
