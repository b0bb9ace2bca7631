package polltest

import (
	"errors"
	"strings"
	"syscall"

	"github.com/go-eddy/eddy/internal/sys"
)

// registration tests what happens to descriptors and tokens.
var registration = map[string]func(*stage){
	"tokens":            tokens,
	"remove":            remove,
	"wrong use":         wrongUse,
	"closed":            closed,
	"many descriptors":  manyDescriptors,
	"descriptor reuse":  descriptorReuse,
	"change of pollers": changeOfPollers,
}

func tokens(s *stage) {
	a, b := s.pair()
	s.write(b, 1)
	s.must(s.p.Add(a, sys.Read, 0))
	for _, token := range []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 63, sys.ReservedToken - 1, 0x0123456789abcdef} {
		s.must(s.p.Modify(a, sys.Read, token))
		s.expect(token, sys.Readable)
	}
	if s.p.Modify(a, sys.Read, sys.ReservedToken) == nil || s.p.Add(b, sys.Read, sys.ReservedToken) == nil {
		s.Error("the reserved token was taken")
	}
}

func remove(s *stage) {
	a, b := s.pair()
	s.must(s.p.Add(a, sys.Read, 7))
	s.write(b, 1)
	s.expect(7, sys.Readable)
	s.must(s.p.Remove(a))
	s.expectNothing()
	s.must(s.p.Add(a, sys.Read, 8))
	s.expect(8, sys.Readable)
	s.must(s.p.Modify(a, sys.None, 8))
	s.must(s.p.Remove(a))
	s.expectNothing()
}

func wrongUse(s *stage) {
	a, b := s.pair()
	s.must(s.p.Add(a, sys.Read, 1))
	for _, c := range []struct {
		what string
		got  error
		want error
	}{
		{"add twice", s.p.Add(a, sys.Read, 2), syscall.EEXIST},
		{"modify unknown", s.p.Modify(b, sys.Read, 2), syscall.ENOENT},
		{"remove unknown", s.p.Remove(b), syscall.ENOENT},
		{"add -1", s.p.Add(-1, sys.Read, 2), syscall.EBADF},
		{"modify -1", s.p.Modify(-1, sys.Read, 2), syscall.EBADF},
		{"remove -1", s.p.Remove(-1), syscall.EBADF},
	} {
		if !errors.Is(c.got, c.want) || !strings.HasPrefix(c.got.Error(), "poll: ") {
			s.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if _, err := s.p.Wait(nil, 0); err == nil {
		s.Error("Wait without room for events succeeded")
	}
	s.write(b, 1)
	s.expect(1, sys.Readable) // the mistakes changed nothing
}

func closed(s *stage) {
	a, _ := s.pair()
	b, _ := s.pair()
	s.must(s.p.Add(a, sys.Read, 1))
	s.must(s.p.Close())
	_, wait := s.p.Wait(make([]sys.Event, 1), 0)
	_, sleep := s.p.Wait(make([]sys.Event, 1), -1)
	for what, err := range map[string]error{
		"Wait": wait, "Wait without limit": sleep, "Wake": s.p.Wake(), "Add": s.p.Add(b, sys.Read, 1),
		"Modify": s.p.Modify(a, sys.Read, 1), "Remove": s.p.Remove(a), "Close": s.p.Close(),
	} {
		if !errors.Is(err, sys.ErrPollerClosed) {
			s.Errorf("%s after Close: %v", what, err)
		}
	}
	if _, err := s.sock.LocalAddr(a); err != nil {
		s.Errorf("Close took a registered descriptor with it: %v", err)
	}
}

func manyDescriptors(s *stage) {
	const count = 400 // with two descriptors each, within the reach of select(2)
	var in, out [count]int
	for i := range count {
		in[i], out[i] = s.pair()
		s.must(s.p.Add(in[i], sys.Read, uint64(i)))
	}
	for i := 1; i < count; i += 2 {
		s.write(out[i], 1)
	}
	// With room for 16 events and nobody reading, all have their turn.
	seen := make(map[uint64]bool)
	s.until("all descriptors to be reported", func() bool {
		for _, e := range s.ready() {
			if e.Token%2 == 0 || e.Ready != sys.Readable {
				s.Fatalf("unexpected %+v", e)
			}
			seen[e.Token] = true
		}
		return len(seen) == count/2
	})
	for i := range count / 4 { // takes from the middle of dense arrays
		s.must(s.p.Remove(in[i]))
	}
	seen = make(map[uint64]bool)
	events := make([]sys.Event, count)
	n, err := s.p.Wait(events, patience)
	s.must(err)
	for _, e := range events[:n] {
		seen[e.Token] = true
	}
	for i := range uint64(count) {
		if want := i >= count/4 && i%2 == 1; seen[i] != want {
			s.Fatalf("descriptor %d reported: %v, want %v", i, seen[i], want)
		}
	}
}

func descriptorReuse(s *stage) {
	for round := range uint64(50) {
		a, b := s.pair()
		s.must(s.p.Add(a, sys.Read, round))
		s.write(b, 1)
		s.expect(round, sys.Readable)
		if round%2 == 0 {
			s.must(s.p.Modify(a, sys.None, round))
		}
		s.must(s.p.Remove(a))
		s.must(s.sock.Close(a))
		s.must(s.sock.Close(b))
	}
	s.expectNothing()
}

// changeOfPollers: a loop that replaces its poller adds its descriptors to the new one before it closes the old one.
func changeOfPollers(s *stage) {
	a, b := s.pair()
	s.must(s.p.Add(a, sys.Read, 1))
	s.expectNothing()
	old := s.p
	s.p = s.poller()
	s.must(s.p.Add(a, sys.Read, 2))
	s.must(old.Close())
	s.expectNothing()
	s.write(b, 1)
	s.expect(2, sys.Readable)
	s.must(s.p.Remove(a))
	s.expectNothing()
}
