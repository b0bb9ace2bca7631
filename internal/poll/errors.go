package poll

import (
	"errors"
	"fmt"
)

var errNoRoom = errors.New("poll: Wait needs room for at least one event")

func errReserved(verb string, fd int) error {
	return fmt.Errorf("poll: %s descriptor %d: the token is reserved", verb, fd)
}
