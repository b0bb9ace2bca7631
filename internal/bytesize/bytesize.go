// Package bytesize reads and writes numbers of bytes as people write them: 512KiB, 20MiB, 10GiB.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the largest first.
//
//nolint:gochecknoglobals // a table, never written
var units = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// Parse reads a whole number of KiB, MiB, GiB, or of bytes if it has no unit. It is never negative.
func Parse(s string) (int64, error) {
	number, unit := s, int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			number, unit = strings.TrimSpace(n), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is no size", s)
	}
	return n * unit, nil
}

// Format writes n in the largest unit that has no remainder.
func Format(n int64) string {
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
