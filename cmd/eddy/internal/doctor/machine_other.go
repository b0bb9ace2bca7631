//go:build !linux && !darwin && !freebsd && !windows

package doctor

import "errors"

func (machine) Volume(string) (Volume, error) { return Volume{}, errors.ErrUnsupported }
