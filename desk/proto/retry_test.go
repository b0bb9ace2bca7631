package proto

import (
	"testing"
	"time"
)

// TestRetryHasAFloor: whatever little a limit has left to wait, a client is asked for at least MinRetry.
func TestRetryHasAFloor(t *testing.T) {
	for _, c := range []struct {
		wait time.Duration
		want int64
	}{
		{-time.Second, 250}, {0, 250}, {time.Millisecond, 250}, {MinRetry, 250}, {MinRetry + 1, 251},
		{time.Second, 1000}, {12 * time.Hour, 43_200_000}, {1<<63 - 1, 9_223_372_036_855},
	} {
		if got := Later(CodeRateLimited, "too fast", c.wait); got.RetryMS != c.want || got.Code != CodeRateLimited || got.Text != "too fast" {
			t.Errorf("%v: %+v, want retry_ms %d", c.wait, got, c.want)
		}
	}
}
