package transport

import (
	"errors"
	"testing"
	"time"
)

const second = int64(time.Second)

// TestTookPutsOff: bytes that the kernel takes move both beginnings by the time they need at the rate, at most to now, and
// without a rate to now. A beginning that is none stays none.
func TestTookPutsOff(t *testing.T) {
	for _, c := range []struct {
		p           Progress
		n, rate     int
		stuck, high int64
	}{
		{Progress{Stuck: 10 * second, High: 20 * second}, 300, 100, 13 * second, 23 * second},
		{Progress{Stuck: 10 * second, High: 29 * second}, 300, 100, 13 * second, 30 * second},
		{Progress{Stuck: 10 * second}, 1, 0, 30 * second, 0},
		{Progress{High: 10 * second}, 1 << 50, 1, 0, 30 * second},
	} {
		p := c.p
		if p.Took(c.n, 30*second, c.rate); p.Stuck != c.stuck || p.High != c.high {
			t.Errorf("%+v, %d bytes at %d: %+v", c.p, c.n, c.rate, p)
		}
	}
}

// TestAnswers: while the system is asked, only what the peer has acknowledged counts, and all of it once.
func TestAnswers(t *testing.T) {
	const rate = 100
	p := Progress{Stuck: second}
	p.Ask(10*second, 1000)
	p.Took(500, 11*second, rate)
	if !p.Asked() || p.Stuck != second {
		t.Errorf("what the kernel took has moved the beginning to %d", p.Stuck)
	}
	for i, c := range []struct {
		unacked int
		err     error
		moved   bool
		stuck   int64
	}{
		{1500, nil, false, second},    // nothing of it
		{1600, nil, false, second},    // the system counts more than bytes
		{1300, nil, true, 3 * second}, // 200 of 1500
		{0, errors.New("cannot tell"), false, 3 * second},
		{1200, nil, true, 4 * second},
	} {
		if moved := p.Answer(c.unacked, c.err, 20*second, rate); moved != c.moved || p.Stuck != c.stuck {
			t.Errorf("answer %d: moved %v, stuck since %d", i, moved, p.Stuck)
		}
	}
	p.Took(100, 20*second, rate)
	if !p.Answer(0, errors.New("cannot tell"), 20*second, rate) || p.Stuck != 5*second {
		t.Errorf("without an answer what the kernel took does not count: %d", p.Stuck)
	}
	p.Free()
	p.Took(100, 20*second, rate)
	if p.Asked() || p.Stuck != 0 || p.taken != 0 {
		t.Errorf("a stream that is free is %+v", p)
	}
}

// TestNextQuestion: the system is asked twice within the shortest limit that runs.
func TestNextQuestion(t *testing.T) {
	const write, idle, backpressure = 40 * time.Minute, 20 * time.Minute, 10 * time.Minute
	p := Progress{Stuck: 1}
	if at := p.NextQuestion(write, idle, backpressure); at != 0 {
		t.Errorf("a question at %d, though nobody asks", at)
	}
	p.Ask(second, 0)
	expect := func(at int64, in time.Duration) {
		t.Helper()
		if at != second+int64(in) {
			t.Errorf("the next question is in %v, want %v", time.Duration(at-second), in)
		}
	}
	expect(p.NextQuestion(write, 0, backpressure), 20*time.Minute)
	expect(p.NextQuestion(write, idle, backpressure), 10*time.Minute)
	p.High = 1
	expect(p.NextQuestion(write, idle, backpressure), 5*time.Minute)
	if at := p.NextQuestion(0, 0, 0); at != 0 {
		t.Errorf("without a limit there is a question at %d", at)
	}
}

// TestEarlier: of two times the earlier counts, and 0 is none.
func TestEarlier(t *testing.T) {
	for _, c := range [][3]int64{{0, 0, 0}, {5, 0, 5}, {0, 5, 5}, {5, 7, 5}, {7, 5, 5}} {
		if got := Earlier(c[0], c[1]); got != c[2] {
			t.Errorf("of %d and %d the earlier is %d", c[0], c[1], got)
		}
	}
}
