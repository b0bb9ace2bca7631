//go:build !linux && !darwin && !freebsd

package doctor

import "errors"

func (machine) Sysctl(string) (string, error)             { return "", errors.ErrUnsupported }
func (machine) OpenFiles() (int, error)                   { return 0, errors.ErrUnsupported }
func (machine) FileLimit() (soft, hard uint64, err error) { return 0, 0, errors.ErrUnsupported }
func (machine) Synchronised() (bool, error)               { return false, errors.ErrUnsupported }
