package sim

import (
	"syscall"

	"github.com/go-eddy/eddy/internal/sys"
)

// tube is a pipe. Both its descriptors stand for it.
type tube struct {
	owner *routine
	in    []byte
}

// Splices says how often bytes went into a pipe, and how often a pipe was closed with bytes in it.
type Splices struct{ Made, Lost uint64 }

// Splices returns the numbers of the run.
func (w *World) Splices() Splices { return w.splices }

// tube returns the pipe behind its two descriptors. It fails the run for anything else, and for the pipe of another loop.
func (w *World) tube(op string, p sys.Pipe) *tube {
	in, out := w.file(op, p.In), w.file(op, p.Out)
	switch {
	case in == nil || out == nil:
		return nil
	case in.tube == nil || in.tube != out.tube || in.tube.owner != w.cur:
		w.Failf("%s of descriptors %d (%s) and %d (%s), which are no pipe of this loop", op, p.In, in.what(), p.Out, out.what())
		return nil
	}
	return in.tube
}

func (s sockets) OpenPipe(size int) (sys.Pipe, error) {
	w := s.w
	w.enter("pipe", size)
	if w.Hit(NoPipe) {
		return sys.Pipe{}, syscall.EMFILE
	}
	f := &file{tube: &tube{owner: w.cur}}
	in, err := w.open(f)
	if err != nil {
		return sys.Pipe{}, err
	}
	out, err := w.open(f)
	if err != nil {
		w.files[in] = nil
		return sys.Pipe{}, err
	}
	return sys.Pipe{In: in, Out: out, Size: size >> w.rng.IntN(3)}, nil
}

// SpliceIn reads into an empty pipe. For one with bytes it fails the run, because there EAGAIN would have two meanings.
func (s sockets) SpliceIn(fd int, p sys.Pipe, n int) (int, error) {
	t := s.w.tube("splice", p)
	switch {
	case t == nil:
		return 0, syscall.EBADF
	case len(t.in) > 0 || n <= 0 || n > p.Size:
		s.w.Failf("splice of %d bytes into a pipe of %d, which holds %d", n, p.Size, len(t.in))
	}
	b := make([]byte, n)
	n, err := s.read(fd, b)
	s.w.trace("splice in", fd, n, err)
	if n > 0 {
		s.w.splices.Made++
		t.in = b[:n]
	}
	return n, err
}

func (s sockets) SpliceOut(fd int, p sys.Pipe, n int) (int, error) {
	t := s.w.tube("splice", p)
	switch {
	case t == nil:
		return 0, syscall.EBADF
	case n != len(t.in):
		s.w.Failf("splice of %d bytes out of a pipe that holds %d", n, len(t.in))
	}
	n, err := s.writev(fd, [][]byte{t.in})
	s.w.trace("splice out", fd, n, err)
	t.in = t.in[n:]
	return n, err
}

func (s sockets) ClosePipe(p sys.Pipe) error {
	w := s.w
	w.enter("close pipe", p.In)
	t := w.tube("close", p)
	if t == nil {
		return syscall.EBADF
	}
	if len(t.in) > 0 {
		w.splices.Lost++
	}
	w.files[p.In], w.files[p.Out] = nil, nil
	w.changed()
	return nil
}
