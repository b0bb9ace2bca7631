package tlsx

import (
	"fmt"
	"slices"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// HandleWrite implements eddy.WriteHandler. The messages of one batch leave in as few records as possible. The bounds
// of the outbound queue are checked with the plain bytes; the queue counts the encrypted ones.
func (l *Layer) HandleWrite(ctx *eddy.Context, msg any) error {
	s := sessionOf(ctx)
	if s == nil {
		release(msg)
		return fmt.Errorf("tlsx: written before the open: %w", eddy.ErrClosed)
	}
	switch m := msg.(type) {
	case []byte:
		return s.write(m)
	case *buf.Bytes:
		return s.write(m.Bytes())
	case string:
		return s.write([]byte(m))
	case [][]byte:
		return s.write(m...)
	case *buf.Shared:
		defer m.Release()
		return s.write(m.Bytes())
	case *buf.Composite:
		return s.writeParts(m.Take())
	case *eddy.File:
		m.Release()
		return ErrFile
	}
	release(msg)
	return fmt.Errorf("tlsx: message of type %T: want []byte, [][]byte, string or one of package buf", msg)
}

func release(msg any) {
	if r, ok := msg.(eddy.Releaser); ok {
		r.Release()
	}
}

func (s *session) writeParts(parts []buf.Part) error {
	list := make([][]byte, len(parts))
	for i, p := range parts {
		list[i] = p.Bytes
		if p.Owner != nil {
			defer p.Owner.Release()
		}
	}
	return s.write(list...)
}

// write takes all of a message or nothing. The caller may reuse its memory afterwards.
func (s *session) write(parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	switch {
	case s.stage < open:
		return s.writeEarly(parts, n)
	case s.stage > open:
		return fmt.Errorf("tlsx: the stream has ended: %w", eddy.ErrClosed)
	}
	if err := s.ctx.Admit(n); err != nil {
		return err
	}
	for _, p := range parts {
		if err := s.add(p); err != nil {
			return err
		}
	}
	return nil
}

// writeEarly keeps a message until the handshake is over.
func (s *session) writeEarly(parts [][]byte, n int) error {
	h := s.hs
	if h.size+n > s.layer.o.MaxEarly {
		return fmt.Errorf("%w: %d bytes wait, %d more, limit %d", ErrEarly, h.size, n, s.layer.o.MaxEarly)
	}
	h.size += n
	h.early = append(h.early, early{slices.Concat(parts...), s.ctx.HoldFuture()})
	return nil
}

// add gathers p. What fills whole records is encrypted at once, without a copy: gathered bytes then leave before it in a
// shorter record.
func (s *session) add(p []byte) error {
	for len(p) > 0 {
		if len(p) >= maxPlain {
			if err := s.flush(); err != nil {
				return err
			}
		}
		if s.gather == nil {
			if whole := len(p) / maxPlain * maxPlain; whole > 0 {
				if err := s.encrypt(p[:whole]); err != nil {
					return err
				}
				p = p[whole:]
				continue
			}
			s.gather = gathers.Get().(*gather)
			s.ctx.FlushLater()
		}
		g := s.gather
		k := copy(g.b[g.n:], p)
		g.n += k
		p = p[k:]
		if g.n == maxPlain {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush encrypts the gathered bytes.
func (s *session) flush() error {
	g := s.gather
	if g == nil {
		return nil
	}
	err := s.encrypt(g.b[:g.n])
	s.dropGather()
	return err
}

func (s *session) dropGather() {
	if g := s.gather; g != nil {
		s.gather = nil
		g.n = 0
		gathers.Put(g)
	}
}

// encrypt makes records of p. After an error the stream has a hole, and nothing can follow.
func (s *session) encrypt(p []byte) error {
	if _, err := s.tls.Write(p); err != nil {
		s.stage = abandoned
		return fmt.Errorf("tlsx: write: %w", err)
	}
	return nil
}

// HandleFlush implements eddy.FlushHandler.
func (l *Layer) HandleFlush(ctx *eddy.Context) error {
	if s := sessionOf(ctx); s != nil && s.stage == open {
		return s.flush()
	}
	return nil
}

// HandleFinish implements eddy.FinishHandler. It sends close_notify as the last record.
func (l *Layer) HandleFinish(ctx *eddy.Context, _ eddy.CloseReason) {
	s := sessionOf(ctx)
	if s == nil || s.stage != open || s.flush() != nil {
		return
	}
	_ = s.tls.CloseWrite() // an error means that the connection is ending anyway
	s.stage = finished
}
