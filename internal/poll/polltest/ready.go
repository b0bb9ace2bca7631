package polltest

import (
	"errors"
	"net"
	"runtime"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// readiness tests what is reported, and when.
var readiness = map[string]func(*stage){
	"readable":              readable,
	"readable before Add":   readableBeforeAdd,
	"acceptable":            acceptable,
	"writable":              writable,
	"connectable":           connectable,
	"interest":              interestChanges,
	"end of stream":         endOfStream,
	"reset":                 resetIsReported,
	"paused without a spin": pausedDoesNotSpin,
	"paused to the end":     pausedEnds,
}

func readable(s *stage) {
	a, b := s.pair()
	s.must(s.p.Add(a, sys.Read, 7))
	s.expectNothing()
	s.write(b, 1)
	s.expect(7, sys.Readable)
	s.expect(7, sys.Readable) // level-triggered
	s.drain(a, 1)
	s.expectNothing()
	s.write(b, 1)
	s.expect(7, sys.Readable)
}

func readableBeforeAdd(s *stage) {
	a, b := s.pair()
	s.write(b, 1)
	s.must(s.p.Add(a, sys.Read, 7))
	s.expect(7, sys.Readable)
}

func acceptable(s *stage) {
	l := s.listen(sys.ListenOptions{})
	s.must(s.p.Add(l.FD, sys.Read, 9))
	s.expectNothing()
	c, err := net.Dial("tcp", l.Addr.String())
	s.must(err)
	defer c.Close()
	s.expect(9, sys.Readable)
	s.expect(9, sys.Readable)
	fd, _, err := s.sock.Accept(l.FD)
	s.must(err)
	s.must(s.sock.Close(fd))
	s.expectNothing()
}

func writable(s *stage) {
	a, b := s.pair()
	s.must(s.p.Add(a, sys.Write, 7))
	s.expect(7, sys.Writable)
	n := s.fillUp(a)
	s.expectNothing()
	s.drain(b, n)
	s.expect(7, sys.Writable)
}

// connectable: the outcome of an attempt is Writable, good or bad; nothing is reported before.
func connectable(s *stage) {
	l := s.listen(sys.ListenOptions{Backlog: 1})
	connect := func() (int, error) {
		fd, _, err := s.sock.Connect("tcp", l.Addr, sys.ConnectOptions{})
		if err == nil {
			s.Cleanup(func() { _ = s.sock.Close(fd) }) // tests close it, too
		}
		return fd, err
	}
	fd, err := connect()
	s.must(err)
	s.must(s.p.Add(fd, sys.Write, 7))
	s.expect(7, sys.Writable)
	s.must(s.sock.ConnectError(fd))
	s.must(s.p.Remove(fd))
	if runtime.GOOS == "linux" { // where a full queue leaves an attempt without an answer
		for range 5 {
			fd, err = connect()
			s.must(err)
		}
		s.must(s.p.Add(fd, sys.Write, 8))
		s.expectNothing()
		s.must(s.p.Remove(fd))
	}
	s.must(s.sock.Close(l.FD))
	if fd, err = connect(); err != nil { // refused at once
		return
	}
	s.must(s.p.Add(fd, sys.Write, 9))
	got := s.next()
	if len(got) != 1 || got[0].Token != 9 || got[0].Ready&sys.Writable == 0 {
		s.Fatalf("a refused attempt reported %+v", got)
	}
	if err := s.sock.ConnectError(fd); !errors.Is(err, syscall.ECONNREFUSED) {
		s.Fatalf("ConnectError: %v", err)
	}
}

func interestChanges(s *stage) {
	a, b := s.pair()
	s.must(s.p.Add(a, sys.None, 1))
	s.write(b, 1)
	s.expectNothing()
	for i, step := range []struct {
		in   sys.Interest
		want sys.Ready
	}{
		{sys.Read, sys.Readable},
		{sys.Read | sys.Write, sys.Readable | sys.Writable},
		{sys.Write, sys.Writable},
		{sys.None, 0},
		{sys.Write, sys.Writable},
		{sys.Read, sys.Readable},
		{sys.None, 0},
		{sys.None, 0},
		{sys.Read | sys.Write, sys.Readable | sys.Writable},
	} {
		token := uint64(100 + i)
		s.must(s.p.Modify(a, step.in, token))
		if step.want == 0 {
			s.expectNothing()
			continue
		}
		var got sys.Ready
		for _, e := range s.next() { // a backend may report conditions apart
			if e.Token != token {
				s.Fatalf("step %d: token %d, want %d", i, e.Token, token)
			}
			got |= e.Ready
		}
		if got != step.want {
			s.Fatalf("step %d: ready %b, want %b", i, got, step.want)
		}
	}
}

func endOfStream(s *stage) {
	fd, client := s.accepted()
	s.must(s.p.Add(fd, sys.Read, 7))
	s.must(client.CloseWrite())
	s.expect(7, sys.Readable)
	if n, err := s.sock.Read(fd, make([]byte, 1)); n != 0 || err != nil {
		s.Fatalf("read at the end of the stream: %d, %v", n, err)
	}
}

func resetIsReported(s *stage) {
	for _, in := range []sys.Interest{sys.Read, sys.Write, sys.Read | sys.Write} {
		fd, client := s.accepted()
		if in&sys.Write != 0 {
			s.fillUp(fd)
		}
		s.must(s.p.Add(fd, in, 7))
		s.expectNothing()
		s.reset(client)
		got := s.next()[0]
		if got.Token != 7 || got.Ready&(sys.Readable|sys.Writable|sys.Hangup|sys.Failed) == 0 {
			s.Fatalf("got %+v", got)
		}
		s.must(s.p.Remove(fd))
	}
}

func pausedDoesNotSpin(s *stage) {
	fd, client := s.accepted()
	s.must(s.p.Add(fd, sys.Read, 7))
	s.expectNothing()
	s.must(s.p.Modify(fd, sys.None, 7))
	if _, err := client.Write(make([]byte, 100)); err != nil {
		s.Fatal(err)
	}
	s.expectNothing()
	s.reset(client)
	told := 0
	for range 20 {
		for _, e := range s.ready() {
			told++
			if e.Token != 7 || e.Ready&^(sys.Hangup|sys.Failed) != 0 {
				s.Fatalf("a paused connection reported %+v", e)
			}
		}
		time.Sleep(time.Millisecond) // for what may come
	}
	if told > 1 {
		s.Fatalf("a paused connection reported its end %d times", told)
	}
	s.must(s.p.Modify(fd, sys.Read, 8))
	if got := s.next()[0]; got.Token != 8 || got.Ready&sys.Readable == 0 {
		s.Fatalf("after resuming: %+v", got)
	}
}

// lookAround is longer than the time in which every backend notices a peer that has gone.
const lookAround = 400 * time.Millisecond

// pausedEnds: that the peer has gone is reported also under None, and once. Checking for it makes no wait shorter or
// longer.
func pausedEnds(s *stage) {
	alive, _ := s.accepted()
	s.must(s.p.Add(alive, sys.None, 1))
	fd, client := s.accepted()
	s.must(s.p.Add(fd, sys.Read, 2))
	s.must(s.p.Modify(fd, sys.None, 3))
	s.expectNothing()
	s.reset(client)
	got := s.next()
	if len(got) != 1 || got[0].Token != 3 || got[0].Ready == 0 || got[0].Ready&^(sys.Hangup|sys.Failed) != 0 {
		s.Fatalf("got %+v", got)
	}
	events := make([]sys.Event, 4)
	start := time.Now()
	waits := 0
	for left := lookAround; left > 0; left = lookAround - time.Since(start) {
		n, err := s.p.Wait(events, left)
		if n != 0 || err != nil {
			s.Fatalf("told again: %d, %v", n, err)
		}
		waits++
	}
	if took := time.Since(start); waits > 3 || took > patience/2 { // an earlier deadline may cut one short, or a signal
		s.Errorf("%d waits and %v for %v", waits, took, lookAround)
	}
	w := s.startWaiter(func() bool { return true })
	s.must(s.p.Wake())
	w.join()
}
