package overload

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial is a source whose pressure the test says, in hundredths.
type dial struct{ atomic.Int64 }

func (d *dial) source(name string, relief ...Action) Source {
	return Source{Name: name, Relief: relief, Read: func() (float64, error) { return float64(d.Load()) / 100, nil }}
}

// only are options with these sources and no others.
func only(sources ...Source) Options {
	return Options{
		Servers: []*eddy.Server{{}}, Memory: -1, Descriptors: -1, Processors: -1, Lag: -1, QueueAge: -1, Sources: sources,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// active returns the actions in force, and checks that all were undone as often as they ended.
func active(t *testing.T, m *Manager) string {
	t.Helper()
	var all []string
	for _, a := range m.Stats().Actions {
		if a.Active {
			all = append(all, a.Action.String())
		}
		if open := a.Began - a.Ended; open > 1 || (open == 1) != a.Active {
			t.Errorf("%v began %d and ended %d times, active %v", a.Action, a.Began, a.Ended, a.Active)
		}
	}
	return strings.Join(all, " ")
}

// TestActionsRiseAtOnceAndFallSlowly: an action begins at the look that finds its pressure. It ends when the pressure has been well
// below for two seconds, not before and not at a short dip; the grade is the strongest one in force.
func TestActionsRiseAtOnceAndFallSlowly(t *testing.T) {
	var d dial
	m, err := newManager(only(d.source("d")))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	const all = "refuse_sheddable refuse_sheddable_plus end_idle end_keep_alive stop_accepting"
	for i, step := range []struct {
		pressure int64
		wait     time.Duration
		want     string
		grade    Action
	}{
		{79, 0, "", None},
		{80, every, "refuse_sheddable", RefuseSheddable},
		{150, every, all, StopAccepting},
		{0, every, all, StopAccepting},
		{0, hold - 2*every, all, StopAccepting},
		{93, every, all, StopAccepting}, // a dip, and above what would end it
		{92, every, all, StopAccepting},
		{92, hold - 2*every, all, StopAccepting},
		{92, every, "refuse_sheddable refuse_sheddable_plus end_idle end_keep_alive", EndKeepAlive},
		{92, time.Hour, "refuse_sheddable refuse_sheddable_plus end_idle end_keep_alive", EndKeepAlive},
		{76, every, "refuse_sheddable refuse_sheddable_plus end_idle end_keep_alive", EndKeepAlive},
		{76, hold, "refuse_sheddable", RefuseSheddable},
		{76, time.Hour, "refuse_sheddable", RefuseSheddable},
		{74, hold, "", None},
	} {
		now = now.Add(step.wait)
		d.Store(step.pressure)
		m.look(now)
		if got := active(t, m); got != step.want || m.Stats().Grade != step.grade {
			t.Errorf("step %d, pressure %d: %q in force, grade %v; want %q, %v", i, step.pressure, got, m.Stats().Grade, step.want, step.grade)
		}
	}
	for _, a := range m.Stats().Actions {
		if a.Began != a.Ended || a.Began == 0 {
			t.Errorf("%v began %d and ended %d times", a.Action, a.Began, a.Ended)
		}
	}
}

// TestSourcesActOnWhatRelievesThem: a source drives no action that does not help it, and the worst one counts.
func TestSourcesActOnWhatRelievesThem(t *testing.T) {
	var conns, requests dial
	m, err := newManager(only(conns.source("conns", ofConns...), requests.source("requests", ofRequests...)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	requests.Store(200)
	m.look(now)
	if got, st := active(t, m), m.Stats(); got != "refuse_sheddable refuse_sheddable_plus" || st.Source != "requests" || st.Pressure != 2 {
		t.Errorf("%q in force by %s, %v", got, st.Source, st.Pressure)
	}
	requests.Store(0)
	conns.Store(91)
	m.look(now.Add(time.Hour))
	if got, st := active(t, m), m.Stats(); got != "end_idle" || st.Source != "conns" {
		t.Errorf("%q in force by %s", got, st.Source)
	}
}

// job is a request of a class.
type job struct {
	class limit.Class
	ran   chan<- limit.Class
}

func (j job) Class() limit.Class { return j.class }
func (job) Due() time.Time       { return time.Time{} }
func (job) Shed(error)           {}
func (j job) Run()               { j.ran <- j.class }

// TestPoolsRefuseByGrade: adaptive pools refuse the classes of the grade, never critical ones, and take all again when it is over; the
// end of the manager undoes what is in force.
func TestPoolsRefuseByGrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, err := executor.NewFixed(executor.Options{Workers: 4, Adaptive: &executor.Adaptive{}})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		var d dial
		o := only(d.source("d"))
		o.Servers[0].Pools = []*executor.Pool{pool}
		m, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan limit.Class, limit.Classes)
		taken := func(pressure int64, wait time.Duration, want string) {
			t.Helper()
			d.Store(pressure)
			time.Sleep(wait)
			synctest.Wait()
			var got []string
			for _, c := range []limit.Class{limit.Sheddable, limit.SheddablePlus, limit.Critical, limit.CriticalPlus} {
				if pool.Submit(job{c, ran}) == nil {
					got = append(got, fmt.Sprint(<-ran))
				}
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("at %d the pool takes %q, want %q", pressure, s, want)
			}
		}
		const all = "sheddable sheddable_plus critical critical_plus"
		taken(0, every, all)
		taken(82, every, "sheddable_plus critical critical_plus")
		taken(500, every, "critical critical_plus")
		taken(0, hold+every, all)
		taken(500, every, "critical critical_plus")
		m.Close()
		m.Close()
		taken(500, time.Hour, all)
		if st := m.Stats(); !st.Over || st.Grade != None || active(t, m) != "" {
			t.Errorf("after the end: %+v", st)
		}
	})
}

// TestManagerEndsWithItsServers: the manager goes on while one of its servers serves, and ends by itself, in the middle of an overload,
// when the last has been told to end. Nobody has to close it.
func TestManagerEndsWithItsServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dial
		d.Store(200)
		o := only(d.source("d"))
		o.Servers = append(o.Servers, new(eddy.Server))
		m, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range o.Servers {
			time.Sleep(time.Minute)
			synctest.Wait()
			if st := m.Stats(); st.Over || st.Grade != StopAccepting {
				t.Errorf("with %d servers ended: %+v", i, st)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(every)
		synctest.Wait()
		if st := m.Stats(); !st.Over || active(t, m) != "" {
			t.Errorf("with all servers ended: %+v", st)
		}
		m.Close()
	})
}

// TestSourcesThatCannotBeRead: a source that fails, panics or returns no number counts for nothing, is counted, and is logged once;
// the others work. When it can be read again it counts.
func TestSourcesThatCannotBeRead(t *testing.T) {
	var log bytes.Buffer
	var d dial
	var broken atomic.Bool
	broken.Store(true)
	bad := func(name string, f func() (float64, error)) Source {
		return Source{Name: name, Read: func() (float64, error) {
			if broken.Load() {
				return f()
			}
			return 0.9, nil
		}}
	}
	o := only(
		bad("fails", func() (float64, error) { return 5, errors.New("no such file") }),
		bad("panics", func() (float64, error) { panic("oh") }),
		bad("nan", func() (float64, error) { return math.NaN(), nil }),
		d.source("d"),
	)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	m, err := newManager(o)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	d.Store(81)
	for i := range 10 {
		m.look(now.Add(time.Duration(i) * every))
	}
	st := m.Stats()
	for _, s := range st.Sources[:3] {
		if s.Errors != 10 || s.Err == nil || s.Pressure != 0 {
			t.Errorf("%+v", s)
		}
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 3 || st.Grade != RefuseSheddable {
		t.Errorf("logged %d times, grade %v:\n%s", n, st.Grade, log.String())
	}
	broken.Store(false)
	m.look(now.Add(time.Minute))
	if st := m.Stats(); st.Grade != EndIdle || st.Sources[0].Err != nil || st.Sources[0].Errors != 10 {
		t.Errorf("when they can be read again: %+v", st)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN msg=\"eddy: overload\" grade=end_idle before=refuse_sheddable source=fails pressure=0.90") {
		t.Errorf("logged\n%s", text)
	}
}

// TestFlappingIsLoggedSparingly: however often the grade changes, the log has a bounded number of lines, and says how many are missing.
func TestFlappingIsLoggedSparingly(t *testing.T) {
	var log bytes.Buffer
	var d dial
	o := only(d.source("d"))
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	m, err := newManager(o)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i := range 100 { // a clock that runs too fast for the hold time
		d.Store(int64(i % 2 * 100))
		m.look(now.Add(time.Duration(i) * time.Millisecond))
		m.latches[StopAccepting].above = time.Time{}
	}
	if n := strings.Count(log.String(), "\n"); n == 0 || n > 5 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

// TestOptions: wrong options are refused by name.
func TestOptions(t *testing.T) {
	srv := []*eddy.Server{{}}
	read := func() (float64, error) { return 0, nil }
	for want, o := range map[string]Options{
		"Options.Servers is empty":               {},
		"Options.Servers[0] is nil":              {Servers: []*eddy.Server{nil}},
		"Options.Pools[0] is nil":                {Servers: srv, Pools: []*executor.Pool{nil}},
		"Options.EndAtOnce is -1":                {Servers: srv, EndAtOnce: -1},
		"Options.Processors is NaN":              {Servers: srv, Processors: math.NaN()},
		"Options.Sources has 65, limit 64":       {Servers: srv, Sources: make([]Source, 65)},
		`Options.Sources[0], "", needs`:          {Servers: srv, Sources: []Source{{Read: read}}},
		`Options.Sources[0], "memory", needs`:    {Servers: srv, Sources: []Source{{Name: "memory", Read: read}}},
		`"x": Relief has none`:                   {Servers: srv, Sources: []Source{{Name: "x", Read: read, Relief: []Action{None}}}},
		"Thresholds.EndIdle is 0.5, below":       {Servers: srv, Thresholds: Thresholds{EndIdle: 0.5}},
		"Thresholds.StopAccepting is +Inf":       {Servers: srv, Thresholds: Thresholds{StopAccepting: math.Inf(1)}},
		"Thresholds.EndKeepAlive is 0.95, below": {Servers: srv, Thresholds: Thresholds{RefuseSheddable: 2, RefuseSheddablePlus: -1, EndIdle: -1}},
	} {
		if m, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			if m != nil {
				m.Close()
			}
		}
	}
	never := only()
	never.Thresholds = Thresholds{-1, -1, -1, -1, -1}
	var d dial
	d.Store(1000)
	never.Sources = []Source{d.source("d")}
	m, err := newManager(never)
	if err != nil {
		t.Fatal(err)
	}
	if m.look(time.Now()); active(t, m) != "" {
		t.Errorf("%q in force", active(t, m))
	}
}
