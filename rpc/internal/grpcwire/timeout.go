package grpcwire

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// maxTimeoutDigits bounds the number of a timeout.
const maxTimeoutDigits = 8

// ParseTimeout reads a grpc-timeout, such as 100m for 100 ms. What is longer than a time.Duration is the longest one.
func ParseTimeout(s string) (time.Duration, error) {
	bad := func() (time.Duration, error) {
		return 0, fmt.Errorf("grpc-timeout %q: want up to %d digits and one of H, M, S, m, u, n", s, maxTimeoutDigits)
	}
	if len(s) < 2 || len(s) > maxTimeoutDigits+1 {
		return bad()
	}
	var unit time.Duration
	switch s[len(s)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return bad()
	}
	n := int64(0)
	for _, c := range []byte(s[:len(s)-1]) {
		if c < '0' || c > '9' {
			return bad()
		}
		n = n*10 + int64(c-'0')
	}
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * unit, nil
}

// AppendTimeout appends d, at least 1 ns, as a grpc-timeout, in the smallest unit that has room. It is rounded up, so that
// the other side never ends a call that has time left.
func AppendTimeout(dst []byte, d time.Duration) []byte {
	d = max(d, 1)
	for _, u := range []struct {
		unit time.Duration
		name byte
	}{{1, 'n'}, {time.Microsecond, 'u'}, {time.Millisecond, 'm'}, {time.Second, 'S'}, {time.Minute, 'M'}, {time.Hour, 'H'}} {
		n := int64(d / u.unit)
		if d%u.unit > 0 {
			n++
		}
		if n < 1e8 {
			return append(strconv.AppendInt(dst, n, 10), u.name)
		}
	}
	return append(dst, "99999999H"...)
}
