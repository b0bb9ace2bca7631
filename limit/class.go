package limit

import (
	"context"
	"fmt"
	"slices"
)

// Class says how much a request matters. Under overload the lower classes are refused first. The zero value is Critical.
type Class int8

// The classes, from the lowest.
const (
	Sheddable     Class = iota - 2 // may be refused at any time, such as work that is repeated in the background
	SheddablePlus                  // is missed a little when it is refused
	Critical                       // somebody waits for it; what says nothing
	CriticalPlus                   // must be served as long as anything is
)

// Classes is the number of classes.
const Classes = 4

var classNames = [Classes]string{"sheddable", "sheddable_plus", "critical", "critical_plus"}

// Rank returns the class as a number from 0, the lowest, to Classes-1. What is no class has the rank of the nearest one.
func (c Class) Rank() int { return int(min(max(c, Sheddable), CriticalPlus) - Sheddable) }

// Valid reports whether c is one of the classes.
func (c Class) Valid() bool { return c >= Sheddable && c <= CriticalPlus }

// String returns the name that travels with requests.
func (c Class) String() string {
	if !c.Valid() {
		return fmt.Sprintf("class %d", int8(c))
	}
	return classNames[c.Rank()]
}

// Field is the name of the metadata and of the header field in which the class of a request travels by convention.
const Field = "eddy-criticality"

// ParseClass returns the class of that name, Critical and false if there is none.
func ParseClass(name string) (c Class, ok bool) {
	i := slices.Index(classNames[:], name)
	if i < 0 {
		return Critical, false
	}
	return Sheddable + Class(i), true
}

// ContextKey is the key of the Class among the values of a context, for those who implement contexts.
type ContextKey struct{}

// ContextWith returns a context whose calls to other servers have the class.
func ContextWith(ctx context.Context, c Class) context.Context {
	return context.WithValue(ctx, ContextKey{}, c)
}

// FromContext returns the class of the request that a context belongs to, Critical and false if it says nothing.
func FromContext(ctx context.Context) (c Class, ok bool) {
	if c, ok = ctx.Value(ContextKey{}).(Class); !ok {
		return Critical, false
	}
	return c, true
}
