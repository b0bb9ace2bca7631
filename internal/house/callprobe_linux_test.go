package house

import (
	"bytes"
	"encoding/json"
	"net"
	"net/netip"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/internal/poll"
	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/internal/sys"
)

// A sighting is the stack of a goroutine at a place that the page names.
type sighting struct {
	label string   // of the goroutine: what eddy_loop or eddy_pool says, "" without
	calls []string // the functions on its stack, outermost first, the place last
}

// sightings collects the sightings. Any goroutine may add one.
type sightings struct {
	mu   sync.Mutex
	seen map[string][]sighting // by place
}

// sightingsPerPlace bounds the sightings of each place, because each one looks at all goroutines.
const sightingsPerPlace = 200

// at notes that the calling goroutine is at a place.
func (s *sightings) at(place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look(place)
}

// look finds the caller among all goroutines. The caller is the only goroutine in this function.
func (s *sightings) look(place string) {
	if len(s.seen[place]) >= sightingsPerPlace {
		return
	}
	for _, g := range goroutines() {
		if i := slices.IndexFunc(g.calls, func(f string) bool { return strings.HasSuffix(f, "(*sightings).look") }); i >= 0 {
			calls := slices.DeleteFunc(g.calls[:i], func(f string) bool { return strings.Contains(f, "house.") })
			s.seen[place] = append(s.seen[place], sighting{g.label, append(slices.Clone(calls), place)})
			return
		}
	}
}

var labelsPattern = regexp.MustCompile(`(?m)^# labels: (.*)$`)

// goroutines lists what every goroutine does now, as the goroutine profile has it.
func goroutines() (all []sighting) {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		panic(err)
	}
	for record := range strings.SplitSeq(text.String(), "\n\n") {
		var g sighting
		if m := labelsPattern.FindStringSubmatch(record); m != nil {
			labels := map[string]string{}
			if err := json.Unmarshal([]byte(m[1]), &labels); err != nil {
				panic(err)
			}
			g.label = labels["eddy_loop"] + labels["eddy_pool"]
		}
		for line := range strings.Lines(record) {
			if fields := strings.Split(line, "\t"); len(fields) > 2 && strings.HasPrefix(fields[1], "0x") {
				name, _, _ := strings.Cut(fields[2], "+0x")
				g.calls = append(g.calls, shortName(name))
			}
		}
		slices.Reverse(g.calls)
		all = append(all, g)
	}
	return all
}

// shortName is a function's name as the page writes it: package eddy's without the package, others' with its last element.
func shortName(full string) string {
	full = strings.TrimPrefix(full[strings.LastIndexByte(full, '/')+1:], "eddy.")
	return strings.ReplaceAll(full, "[...]", "") // type arguments
}

// machine is the real kernel, with a wrapper that notes which goroutine calls it.
func (s *sightings) machine() simhook.Host {
	return simhook.Host{
		Sockets: func() sys.Sockets { return watchedSockets{backend.NewSockets("epoll"), s} },
		Clock:   sys.NewClock(),
		Poller: func() (sys.Poller, error) {
			p, err := backend.NewPoller("epoll", poll.Parked)
			return watchedPoller{p, s}, err
		},
		Start: func(l simhook.Loop) { go l.Run() },
		Pause: func(d time.Duration, alarm <-chan struct{}) {
			select {
			case <-time.After(d):
			case <-alarm:
			}
		},
		Await: func(a, b <-chan struct{}) bool {
			select {
			case <-a:
				return true
			case <-b:
				return false
			}
		},
	}
}

type watchedSockets struct {
	sys.Sockets
	s *sightings
}

func (w watchedSockets) Accept(fd int) (int, netip.AddrPort, error) {
	w.s.at("Sockets.Accept")
	return w.Sockets.Accept(fd)
}

func (w watchedSockets) Connect(network string, remote net.Addr, o sys.ConnectOptions) (int, bool, error) {
	w.s.at("Sockets.Connect")
	return w.Sockets.Connect(network, remote, o)
}

func (w watchedSockets) ConnectError(fd int) error {
	w.s.at("Sockets.ConnectError")
	return w.Sockets.ConnectError(fd)
}

func (w watchedSockets) Read(fd int, p []byte) (int, error) {
	w.s.at("Sockets.Read")
	return w.Sockets.Read(fd, p)
}

func (w watchedSockets) Write(fd int, p []byte) (int, error) {
	w.s.at("Sockets.Write")
	return w.Sockets.Write(fd, p)
}

func (w watchedSockets) Writev(fd int, bufs [][]byte) (int, error) {
	w.s.at("Sockets.Writev")
	return w.Sockets.Writev(fd, bufs)
}

func (w watchedSockets) Close(fd int) error {
	w.s.at("Sockets.Close")
	return w.Sockets.Close(fd)
}

type watchedPoller struct {
	sys.Poller
	s *sightings
}

func (w watchedPoller) Add(fd int, in sys.Interest, token uint64) error {
	w.s.at("Poller.Add")
	return w.Poller.Add(fd, in, token)
}

func (w watchedPoller) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	if timeout != 0 {
		w.s.at("Poller.Wait")
	}
	return w.Poller.Wait(events, timeout)
}

func (w watchedPoller) Wake() error {
	w.s.at("Poller.Wake")
	return w.Poller.Wake()
}
