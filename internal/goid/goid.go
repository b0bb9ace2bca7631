// Package goid tells goroutines apart, for code that must not wait for its own goroutine.
package goid

import (
	"runtime"
	"strconv"
	"strings"
)

// Current reads the number of the calling goroutine from its stack header, in about a microsecond. Each number is given
// out only once.
func Current() uint64 {
	var b [64]byte
	header := string(b[:runtime.Stack(b[:], false)])
	field, _, _ := strings.Cut(strings.TrimPrefix(header, "goroutine "), " ")
	id, _ := strconv.ParseUint(field, 10, 64)
	return id
}
