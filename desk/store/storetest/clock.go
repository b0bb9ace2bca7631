package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// testClockSetBack: a clock that is set back or forward changes neither the order of the events nor that of the queue.
// No measured time is below zero.
func testClockSetBack(t *testing.T, r *rig) {
	first := r.visitor()
	conv := r.assigned(first, r.lin).ID
	var waiting []string
	wait := func() {
		t.Helper()
		c := r.open(r.visitor(), true)
		waiting = append(waiting, c.ID)
	}
	say := func(want uint64) {
		t.Helper()
		if out := r.do(text(conv, first.Actor(), "x")); out.Events[0].Seq != want {
			t.Errorf("event %d, want %d", out.Events[0].Seq, want)
		}
	}
	order := func() {
		t.Helper()
		queue, _, err := r.Cold().Queue(t.Context(), 50)
		r.must(err)
		var got []string
		for _, c := range queue {
			got = append(got, c.ID)
		}
		if !slices.Equal(got, waiting) {
			t.Errorf("the queue is %v, want %v", got, waiting)
		}
	}
	wait()
	wait()
	say(3)
	r.shift.Add(-int64(5 * time.Hour))
	wait()
	wait()
	say(4)
	order()
	r.shift.Add(int64(12 * time.Hour))
	wait()
	say(5)
	order()
	r.shift.Add(-int64(48 * time.Hour))
	wait()
	wait()
	order()
	out := r.do(store.Move{Conv: waiting[0], Trigger: store.TakeOver, By: r.moe.Actor()})
	waiting = waiting[1:]
	r.do(text(out.Conv.ID, r.moe.Actor(), "hello"))
	r.do(store.Move{Conv: out.Conv.ID, Trigger: store.AgentClose, By: r.moe.Actor()})
	order()
	now := time.Now().Add(time.Duration(r.shift.Load()))
	rows, err := r.Background().Report(t.Context(), store.ReportQuery{From: now.Add(-time.Hour).UnixMilli(), To: now.Add(time.Hour).UnixMilli(), By: store.ByAll})
	r.must(err)
	if len(rows) != 1 || rows[0].Wait.N != 1 || rows[0].Wait.Mean != 0 || rows[0].First.N != 1 || rows[0].First.Mean < 0 || rows[0].Handle.N != 1 || rows[0].Handle.Mean < 0 {
		t.Errorf("reported %+v", rows)
	}
}
