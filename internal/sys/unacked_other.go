//go:build freebsd || netbsd || openbsd || dragonfly

package sys

import "errors"

// notSentLowat is the option that bounds unsent bytes; 0 = not known here.
const notSentLowat = 0

func (s *sockets) Unacked(int) (int, error) { return 0, errors.ErrUnsupported }
