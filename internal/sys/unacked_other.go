//go:build freebsd || netbsd || openbsd || dragonfly

package sys

import "errors"

// notSentLowat bounds what is not sent yet; 0 = not known here.
const notSentLowat = 0

func (s *sockets) Unacked(int) (int, error) { return 0, errors.ErrUnsupported }
