package load

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// Protocols are the names of the protocols, in the order in which they are listed.
var Protocols = []string{"echo", "line", "frame", "rpc", "http", "ws"}

// Options say what load to make. Check names the first one that makes no sense.
type Options struct {
	Protocol string // one of Protocols
	Addr     string // host:port
	TLS      bool   // the certificate is not verified
	Conns    int
	Size     int // bytes of payload per request; 0 only for "http": a request without a body
	InFlight int // requests in flight per connection; with a Rate the most of them
	Warmup   time.Duration
	Duration time.Duration // after the warm-up

	// Rate is how many requests are sent per second, on all connections together, however fast the answers come. 0 keeps
	// InFlight requests in flight instead.
	Rate int

	Service, Method string // of "rpc": the key and the name of a method that returns its raw body
	Path            string // of "http"; "" is /
}

// Limits of Options.
const (
	MaxConns    = 20_000
	MaxSize     = 1 << 20
	MaxRate     = 10_000_000
	MaxInFlight = 1 << 20 // bytes in flight per connection, Size × InFlight; more could deadlock in full socket buffers
	MaxDuration = 24 * time.Hour
)

// maxPrefix bounds the names in a request. The protocol takes 16 KiB with everything around them.
const maxPrefix = 16 << 10 / 2

// DefaultInFlight returns how many requests of a size may be in flight on a connection with a Rate.
func DefaultInFlight(size int) int { return min(64, max(1, MaxInFlight/max(size, 1))) }

// Check reports the first option that is out of range, naming it as the flag it comes from.
func (o Options) Check() error {
	if !slices.Contains(Protocols, o.Protocol) {
		return fmt.Errorf("--protocol: unknown protocol %q: use %s", o.Protocol, strings.Join(Protocols, ", "))
	}
	if _, _, err := net.SplitHostPort(o.Addr); err != nil {
		return fmt.Errorf("--addr %q is not host:port, such as 127.0.0.1:7000", o.Addr)
	}
	leastSize := 1
	if o.Protocol == "http" {
		leastSize = 0
	}
	for _, f := range []struct {
		name              string
		value, least, max int
	}{{"conns", o.Conns, 1, MaxConns}, {"size", o.Size, leastSize, MaxSize}, {"inflight", o.InFlight, 1, MaxInFlight}} {
		if f.value < f.least || f.value > f.max {
			return fmt.Errorf("--%s %d is out of range: use %d to %d", f.name, f.value, f.least, f.max)
		}
	}
	if o.Size*o.InFlight > MaxInFlight {
		return fmt.Errorf("--size %d × --inflight %d is more than %d bytes in flight per connection: lower one of them", o.Size, o.InFlight, MaxInFlight)
	}
	if o.Rate < 0 || o.Rate > MaxRate {
		return fmt.Errorf("--rate %d is out of range: use 1 to %d requests per second, or 0 for no constant rate", o.Rate, MaxRate)
	}
	if err := o.checkNames(); err != nil {
		return err
	}
	if o.Duration <= 0 || o.Duration > MaxDuration {
		return fmt.Errorf("--duration %v must be positive, such as 10s, and at most %v", o.Duration, MaxDuration)
	}
	if o.Warmup < 0 || o.Warmup > MaxDuration {
		return fmt.Errorf("--warmup %v is out of range: use 0s to %v", o.Warmup, MaxDuration)
	}
	return nil
}

// checkNames checks the options that become part of a request as they are.
func (o Options) checkNames() error {
	if len(o.Service)+len(o.Method) > maxPrefix {
		return fmt.Errorf("--service and --method have %d bytes together, limit %d", len(o.Service)+len(o.Method), maxPrefix)
	}
	if o.Path != "" && !strings.HasPrefix(o.Path, "/") || strings.ContainsFunc(o.Path, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return fmt.Errorf("--path %q is not a path: it begins with / and has no blanks", o.Path)
	}
	return nil
}
