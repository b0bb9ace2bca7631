package netsys

import (
	"errors"

	"github.com/go-eddy/eddy/internal/sys"
)

// Readers and writers of these sockets are goroutines with memory of their own, so there is nothing to splice.

func (s sockets) OpenPipe(int) (sys.Pipe, error)            { return sys.Pipe{}, errors.ErrUnsupported }
func (s sockets) SpliceIn(int, sys.Pipe, int) (int, error)  { return 0, errors.ErrUnsupported }
func (s sockets) SpliceOut(int, sys.Pipe, int) (int, error) { return 0, errors.ErrUnsupported }
func (s sockets) ClosePipe(sys.Pipe) error                  { return errors.ErrUnsupported }
