package buf

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// LeakLevel says how closely buffers are watched for being dropped without their release.
type LeakLevel uint8

const (
	// LeakDefault leaves the choice to the code that gets it; NewLeaks takes it for LeakOff.
	LeakDefault LeakLevel = iota
	// LeakOff watches nothing and costs nothing.
	LeakOff
	// LeakSimple watches one buffer in 128, on average, and reports that leaks exist.
	LeakSimple
	// LeakAdvanced watches as many as LeakSimple and reports where a leaked buffer was allocated and last touched.
	LeakAdvanced
	// LeakParanoid is LeakAdvanced for every buffer. It makes a program several times slower.
	LeakParanoid
	leakLevels
)

var leakLevelNames = [leakLevels]string{"default", "off", "simple", "advanced", "paranoid"}

// String returns the level's name, the one ParseLeakLevel takes.
func (l LeakLevel) String() string {
	if l >= leakLevels {
		return fmt.Sprintf("leak_level_%d", uint8(l))
	}
	return leakLevelNames[l]
}

// ParseLeakLevel returns the level with a name: "off", "simple", "advanced" or "paranoid"; "" is LeakDefault.
func ParseLeakLevel(name string) (LeakLevel, error) {
	if name == "" {
		return LeakDefault, nil
	}
	for l, n := range leakLevelNames {
		if n == name {
			return LeakLevel(l), nil
		}
	}
	return LeakDefault, fmt.Errorf("buf: leak level %q: want off, simple, advanced or paranoid", name)
}

// leakInterval is the average number of buffers to one that LeakSimple and LeakAdvanced watch.
const leakInterval = 128

// maxLeakSites bounds the places that are told apart. Leaks from further places are only counted.
const maxLeakSites = 256

// Leak is one report. Only the first leak of each place is reported.
type Leak struct {
	Kind    string   // "shared buffer" or "segment"
	Size    int      // bytes
	Origin  string   // where it was allocated: innermost caller first, "" at LeakSimple
	Touches []string // the last uses, latest first; none at LeakSimple
}

// Leaks finds buffers that the garbage collector took although they were never released. The pools whose buffers it
// watches share it. Any goroutine; a nil Leaks watches nothing.
type Leaks struct {
	level LeakLevel
	log   *slog.Logger
	hook  func(Leak)
	found atomic.Uint64

	mu    sync.Mutex
	sites map[leakSite]struct{}
	full  bool
}

// leakSite identifies the place of a leak; two leaks with the same site are reported once.
type leakSite struct {
	kind   string
	origin stack
}

// NewLeaks returns a detector, or nil for LeakOff and LeakDefault. Reports go to log at level Error and, if hook is not
// nil, to hook. Both are called on the runtime's own goroutine for cleanups, after a collection, and must not block.
func NewLeaks(level LeakLevel, log *slog.Logger, hook func(Leak)) (*Leaks, error) {
	switch {
	case level >= leakLevels:
		return nil, fmt.Errorf("buf: leak level %d: the highest is %d", level, LeakParanoid)
	case level <= LeakOff:
		return nil, nil
	case log == nil:
		log = slog.Default()
	}
	return &Leaks{level: level, log: log, hook: hook, sites: make(map[leakSite]struct{})}, nil
}

// Found returns how many watched buffers have leaked so far. With sampling, that is about one in 128 of those that did.
func (l *Leaks) Found() uint64 {
	if l == nil {
		return 0
	}
	return l.found.Load()
}

// Level returns the detector's level, LeakOff for nil.
func (l *Leaks) Level() LeakLevel {
	if l == nil {
		return LeakOff
	}
	return l.level
}

// report counts a leak and tells about it if it is the first from its place.
func (l *Leaks) report(t *trace) {
	l.found.Add(1)
	first, full := l.note(t.site())
	if full {
		l.log.Error("buf: buffers leak in too many places, further ones are only counted", "places", maxLeakSites)
	}
	if !first {
		return
	}
	leak := t.describe()
	attrs := []any{"kind", leak.Kind, "bytes", leak.Size, "level", l.level.String()}
	if t.history == nil {
		attrs = append(attrs, "hint", "level advanced tells where")
	} else {
		attrs = append(attrs, "origin", leak.Origin, "touches", leak.Touches)
	}
	l.log.Error("buf: a buffer was dropped without its release", attrs...)
	l.tell(leak)
}

// note reports whether the place is new and told apart. full is true once, for the first place beyond maxLeakSites.
func (l *Leaks) note(s leakSite) (first, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.sites[s]; known {
		return false, false
	}
	if len(l.sites) == maxLeakSites {
		full = !l.full
		l.full = true
		return false, full
	}
	l.sites[s] = struct{}{}
	return true, false
}

// tell calls the hook; a panic there must not take the process with it.
func (l *Leaks) tell(leak Leak) {
	if l.hook == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			l.log.Error("buf: panic in the leak listener", "panic", v)
		}
	}()
	l.hook(leak)
}

// sampler picks the buffers of one pool that are watched. The distance between two is uniform from 1 to 255, so that an
// allocation pattern of any period is met. The pool's owner owns it.
type sampler struct {
	left int32
	seed uint32
}

func (s *sampler) next(l *Leaks) bool {
	if l.level == LeakParanoid {
		return true
	}
	if s.seed == 0 {
		s.seed = 2463534242
		s.draw()
	}
	if s.left > 0 {
		s.left--
		return false
	}
	s.draw()
	return true
}

// draw is one step of Marsaglia's xorshift; a fixed seed keeps a simulated run repeatable.
func (s *sampler) draw() {
	s.seed ^= s.seed << 13
	s.seed ^= s.seed >> 17
	s.seed ^= s.seed << 5
	s.left = int32(s.seed % (2*leakInterval - 1))
}
