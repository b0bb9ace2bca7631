//go:build !unix

package overload

import (
	"errors"
	"time"
)

// processTime returns errors.ErrUnsupported.
func processTime() (time.Duration, error) { return 0, errors.ErrUnsupported }

// descriptors returns errors.ErrUnsupported.
func descriptors(int) (float64, error) { return 0, errors.ErrUnsupported }
