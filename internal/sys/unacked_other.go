//go:build freebsd || netbsd || openbsd || dragonfly

package sys

import "errors"

func (s *sockets) Unacked(int) (int, error) { return 0, errors.ErrUnsupported }
