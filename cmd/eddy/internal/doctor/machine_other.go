//go:build !linux && !darwin && !freebsd && !windows

package doctor

import "errors"

func (machine) Memory() (uint64, error)       { return 0, errors.ErrUnsupported }
func (machine) Volume(string) (Volume, error) { return Volume{}, errors.ErrUnsupported }
