package eddy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
)

// TestStrategies: with something to run the loop polls without waiting and asks nobody. Else the strategy says whether
// it waits, polls, or does without the poller.
func TestStrategies(t *testing.T) {
	for _, c := range []struct {
		name     string
		decision WaitDecision
		want     []time.Duration // timeouts of the poller
		events   uint64
	}{
		{"block", Block, []time.Duration{time.Second}, 1},
		{"busy-wait", BusyWait, []time.Duration{0}, 1},
		{"continue", Continue, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []time.Duration
			srv := cutServer(func(*Context, string) error { return nil })
			srv.Loops, srv.Group = 0, &Group{Strategy: func(timeout time.Duration, _ int) WaitDecision { asked = append(asked, timeout); return c.decision }}
			st, l := newStage(t, srv)
			p := st.nextPoller
			a := st.connect(l)
			if _, err := l.After(nil, time.Second, func() {}); err != nil {
				t.Fatal(err)
			}
			p.timeouts, asked = nil, nil
			a.send(";")
			before := l.Counters[meter.Events]
			l.Iterate()
			if !slices.Equal(p.timeouts, c.want) || l.Counters[meter.Events]-before != c.events {
				t.Errorf("waited %v, %d events", p.timeouts, l.Counters[meter.Events]-before)
			}
			if len(asked) != 1 || asked[0] != time.Second {
				t.Errorf("asked with %v", asked)
			}
			p.timeouts, asked = nil, nil
			ran := 0
			st.flood(l, 1, 0, &ran)
			l.Iterate()
			if !slices.Equal(p.timeouts, []time.Duration{0}) || len(asked) != 0 || ran != 1 {
				t.Errorf("with a task the loop waited %v, asked %d times and ran %d", p.timeouts, len(asked), ran)
			}
		})
	}
}

func TestGroupTuningIsChecked(t *testing.T) {
	for _, c := range []struct {
		group *Group
		want  string
	}{
		{&Group{IORatio: 101}, "Group.IORatio is 101"},
		{&Group{IORatio: -1}, "Group.IORatio is -1"},
		{&Group{TaskBudget: -1}, "Group.TaskBudget is -1"},
		{&Group{TaskBudget: 10, MinTasks: 11}, "Group.MinTasks is 11: it must be between 1 and TaskBudget, which is 10"},
		{&Group{MinTasks: -1}, "Group.MinTasks is -1"},
		{&Group{MaxEvents: -1}, "Group.MaxEvents is -1"},
		{&Group{CPUs: []int{0}}, "only loops in WaitPinned can be pinned"},
		{&Group{CPUs: []int{-1}, WaitMode: WaitPinned}, "Group.CPUs names processor -1"},
		{&Group{Spin: 1}, "only loops in WaitPinned may spin"},
	} {
		err := c.group.Start()
		if err == nil {
			t.Errorf("%+v was accepted", c.want)
			c.group.Close()
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q does not say %q", err, c.want)
		}
	}
}

// TestBossIsTunedLikeItsWorkers: the boss that a server makes takes the group's settings over, but neither processors nor
// spinning.
func TestBossIsTunedLikeItsWorkers(t *testing.T) {
	for _, g := range []*Group{
		{},
		{StallThreshold: -1, RebuildAfter: -1},
		{IORatio: 70, TaskBudget: 90, MinTasks: 8, MaxEvents: 7, RebuildAfter: 9, StallThreshold: time.Second},
		{WaitMode: WaitPinned, CPUs: []int{0}, Spin: -1},
	} {
		w, err := g.prepare()
		if err != nil {
			t.Fatal(err)
		}
		boss, err := w.privateBoss().tuning()
		if err != nil {
			t.Fatal(err)
		}
		want := w.set.tuning
		want.cpus, want.spin = nil, 0
		if fmt.Sprint(boss) != fmt.Sprint(want) {
			t.Errorf("workers %+v, boss %+v", want, boss)
		}
	}
}
