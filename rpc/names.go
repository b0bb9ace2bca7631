package rpc

import (
	"fmt"
	"slices"
	"strings"
)

// nameOf returns the name of v, or what v is and its number if there is no such value.
func nameOf[T ~uint8](v T, names []string, what string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s %d", what, v)
}

// parseName returns the value of that name. The error names the choices.
func parseName[T ~uint8](name string, names []string, what string) (T, error) {
	if i := slices.Index(names, name); i >= 0 {
		return T(i), nil
	}
	return 0, fmt.Errorf("rpc: %s %q: it must be one of %s", what, name, strings.Join(names, ", "))
}
