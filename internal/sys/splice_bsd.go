//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import "errors"

// These systems move no bytes from socket to socket as splice does.

func (s *sockets) OpenPipe(int) (Pipe, error)            { return Pipe{}, errors.ErrUnsupported }
func (s *sockets) SpliceIn(int, Pipe, int) (int, error)  { return 0, errors.ErrUnsupported }
func (s *sockets) SpliceOut(int, Pipe, int) (int, error) { return 0, errors.ErrUnsupported }
func (s *sockets) ClosePipe(Pipe) error                  { return errors.ErrUnsupported }
