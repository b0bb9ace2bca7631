package eddy_test

import "errors"

// descriptorLimit: there is none that a process could ask for, other than memory.
func descriptorLimit() uint64 { return 1 << 24 }

func makeDescriptorsScarce() error { return errors.ErrUnsupported }
