package sqlstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClockOfSlowAnswers: an answer that took long says little about the database's clock, and moves it as little.
func TestClockOfSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clock{began: time.Now(), machine: time.Now}
		is := func(what string, off time.Duration) {
			t.Helper()
			if got := time.Until(c.now()); got != off {
				t.Errorf("%s: off by %v, want %v", what, got, off)
			}
		}
		set := func(off, took time.Duration) { // what the database says at the end of an answer that took so long
			asked := time.Now()
			<-time.After(took)
			c.set(time.Now().Add(off).UnixMicro(), asked)
		}
		is("a file's clock", 0)
		set(10*time.Minute, 0)
		is("the first answer", 10*time.Minute)
		set(10*time.Minute-300*time.Millisecond, time.Second)
		is("it said so at the beginning of the answer", 10*time.Minute)
		set(9*time.Minute, time.Second)
		is("slower, at the latest at the beginning", 9*time.Minute+time.Second)
		set(11*time.Minute, time.Second)
		is("faster, at the end", 11*time.Minute)
		c.set(0, time.Now())
		is("a database without a clock", 11*time.Minute)
	})
}
