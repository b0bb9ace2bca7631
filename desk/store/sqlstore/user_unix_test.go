//go:build unix

package sqlstore

import (
	"errors"
	"syscall"
)

// becomeUser gives up the superuser's privileges for good.
func becomeUser(id int) error { return errors.Join(syscall.Setgid(id), syscall.Setuid(id)) }
