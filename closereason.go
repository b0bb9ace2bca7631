package eddy

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy/internal/meter"
)

// The bounds of an application's own close reasons. Every server counts each of them, for each network and tenant as well.
const (
	maxOwnReasons    = 32
	ownReasonMaxName = 40 // bytes
)

// The counts have room for every reason: with more reasons this does not compile.
const _ uint = meter.Kinds - uint(closeReasons) - maxOwnReasons

// RegisterCloseReason returns the application's own close reason of the given name. A connection can be closed with it
// wherever it can be closed with a reason of the engine. Its String form is the name, which is also its metric label.
// Register reasons where a package initialises its variables, so that their counters begin with the server's:
//
//	var QuotaExceeded = eddy.RegisterCloseReason("quota_exceeded")
//
// A name that is registered again stands for the same reason, so that packages can share one. A name begins with a letter
// and has at most 40 of the characters a-z, 0-9 and _. RegisterCloseReason panics if it has others, if the name belongs to
// the engine, and at the 33rd name. Any goroutine.
func RegisterCloseReason(name string) CloseReason {
	r, err := ownReasons.register(name)
	if err != nil {
		panic(err)
	}
	return r
}

// ownReasons are the close reasons of the application.
var ownReasons reasonNames

// reasonNames are the names of the reasons beyond those of the engine. Those below count never change.
type reasonNames struct {
	mu    sync.Mutex // held by register
	count atomic.Int32
	names [maxOwnReasons]string
}

func (o *reasonNames) register(name string) (CloseReason, error) {
	for r, known := range closeReasonNames {
		if name == known {
			return 0, fmt.Errorf("eddy: RegisterCloseReason(%q): the engine closes with that reason itself (%d): choose another name", name, r)
		}
	}
	if !snakeCase(name) {
		return 0, fmt.Errorf("eddy: RegisterCloseReason(%.50q): a name begins with a letter and has at most %d of a-z, 0-9 and _, such as \"quota_exceeded\"", name, ownReasonMaxName)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n := int(o.count.Load())
	for i, known := range o.names[:n] {
		if name == known {
			return closeReasons + CloseReason(i), nil
		}
	}
	if n == maxOwnReasons {
		return 0, fmt.Errorf("eddy: RegisterCloseReason(%q): there are %d reasons already, the limit: register fixed names once, not names made of data", name, maxOwnReasons)
	}
	o.names[n] = name
	o.count.Store(int32(n + 1))
	return closeReasons + CloseReason(n), nil
}

func snakeCase(name string) bool {
	return name != "" && len(name) <= ownReasonMaxName && name[0] >= 'a' && name[0] <= 'z' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// String returns the reason's snake_case name, the one metrics use.
func (r CloseReason) String() string {
	if r < closeReasons {
		return closeReasonNames[r]
	}
	if r < allReasons() {
		return ownReasons.names[r-closeReasons]
	}
	return fmt.Sprintf("close_reason_%d", uint8(r))
}

// allReasons is the first number that is no reason.
func allReasons() CloseReason { return closeReasons + CloseReason(ownReasons.count.Load()) }

// CloseReasons lists every reason a connection can end with: the engine's, then the application's in the order of their
// registration.
func CloseReasons() []CloseReason {
	n := allReasons()
	all := make([]CloseReason, 0, n-1)
	for r := CloseNormal; r < n; r++ {
		all = append(all, r)
	}
	return all
}

// orInternal returns r if a connection can end with r, and otherwise CloseInternalError.
func (r CloseReason) orInternal() CloseReason {
	if r == CloseUnset || r >= allReasons() {
		return CloseInternalError
	}
	return r
}
