//go:build unix

package backend

import "github.com/go-eddy/eddy/internal/sys"

func newSockets() sys.Sockets { return sys.NewSockets() }
