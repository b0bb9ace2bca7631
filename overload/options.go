package overload

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

// Options configure a Manager. Servers must be given.
type Options struct {
	Servers []*eddy.Server   // whose connections are ended and refused, and whose loops are watched
	Pools   []*executor.Pool // whose queues are watched, and which refuse by class where they are adaptive; nil = Pools of Servers

	// What is read. 0 is the default of each; negative = it is not read.
	Memory      int           // bytes that the Go program may use; 0 = the least of GOMEMLIMIT, the control groups' limits and the machine's memory
	Descriptors int           // that the process may open; 0 = its limit (RLIMIT_NOFILE)
	Processors  float64       // whose time the process may use; 0 = GOMAXPROCS, or the control groups' quota if that is less
	Lag         time.Duration // time until a loop comes to its next task; 0 = 500 ms
	QueueAge    time.Duration // time for which the oldest work of a pool has waited; 0 = 1 s
	Sources     []Source      // of your own, beside these

	Thresholds Thresholds // from which pressure on what is done
	EndAtOnce  int        // connections of each server that EndIdle and EndKeepAlive end in 200 ms; 0 = 64

	Logger *slog.Logger // nil = slog.Default()
}

// Source tells how near something is to its limit.
type Source struct {
	Name string
	// Read returns the pressure: 0 is none, 1 is the limit. The Manager calls it five times a second on its goroutine; Read must not
	// block. An error is counted and logged once; the source counts for nothing until it can be read again.
	Read func() (pressure float64, err error)
	// Relief are the actions that relieve the source; nil = all.
	Relief []Action
}

const (
	defaultLag       = 500 * time.Millisecond
	defaultQueueAge  = time.Second
	defaultEndAtOnce = 64

	// every is the time between two looks at the sources.
	every = 200 * time.Millisecond
	// maxSources bounds Options.Sources.
	maxSources = 64
)

// check validates the fields and fills in the defaults.
func (o *Options) check() error {
	if len(o.Servers) == 0 {
		return errors.New("overload: Options.Servers is empty: it takes the servers to relieve")
	}
	for i, s := range o.Servers {
		if s == nil {
			return fmt.Errorf("overload: Options.Servers[%d] is nil", i)
		}
	}
	if o.Pools == nil {
		for _, s := range o.Servers {
			o.Pools = append(o.Pools, s.Pools...)
		}
	}
	for i, p := range o.Pools {
		if p == nil {
			return fmt.Errorf("overload: Options.Pools[%d] is nil", i)
		}
	}
	if len(o.Sources) > maxSources {
		return fmt.Errorf("overload: Options.Sources has %d, limit %d", len(o.Sources), maxSources)
	}
	names := map[string]bool{sourceMemory: true, sourceDescriptors: true, sourceCPU: true, sourceLag: true, sourceQueueAge: true}
	for i, s := range o.Sources {
		if s.Name == "" || s.Read == nil || names[s.Name] {
			return fmt.Errorf("overload: Options.Sources[%d], %q, needs a Name of its own and Read", i, s.Name)
		}
		names[s.Name] = true
		for _, a := range s.Relief {
			if a == None || a >= actions {
				return fmt.Errorf("overload: Options.Sources[%d], %q: Relief has %v, which is no action", i, s.Name, a)
			}
		}
	}
	if o.EndAtOnce < 0 {
		return fmt.Errorf("overload: Options.EndAtOnce is %d, below 0", o.EndAtOnce)
	}
	if math.IsNaN(o.Processors) || math.IsInf(o.Processors, 0) {
		return fmt.Errorf("overload: Options.Processors is %v", o.Processors)
	}
	return o.checkThresholds()
}

func (o *Options) checkThresholds() error {
	least, from := 0.0, None
	for a, v := range o.Thresholds.list() {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return fmt.Errorf("overload: Options.Thresholds.%s is %v", thresholdNames[a], v)
		case v < 0:
			continue
		case v < least:
			return fmt.Errorf("overload: Options.Thresholds.%s is %v, below the %v of %s: what costs more comes later", thresholdNames[a], v, least, thresholdNames[from])
		}
		least, from = v, Action(a)
	}
	return nil
}

var thresholdNames = [actions]string{"", "RefuseSheddable", "RefuseSheddablePlus", "EndIdle", "EndKeepAlive", "StopAccepting"}
