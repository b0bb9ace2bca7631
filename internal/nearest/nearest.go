// Package nearest finds the name that was probably meant by one that is wrong.
package nearest

import (
	"slices"
	"strings"
)

// Name returns the name that was probably meant, "" if none is near. It sorts names.
func Name(typed string, names []string) string {
	slices.Sort(names)
	best, least := "", 3
	for _, name := range names {
		if d := distance(typed, name); d < least || strings.HasPrefix(name, typed) && best == "" {
			best, least = name, min(d, least)
		}
	}
	return best
}

// distance is the Levenshtein distance of two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(diagonal+cost, row[j]+1, row[j+1]+1)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
