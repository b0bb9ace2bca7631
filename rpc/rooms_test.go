package rpc

import (
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/rooms"
)

// TestRooms: client and server name no definition of each other, events none of either, and what they share none of all
// three. The room of a file is the first word of its name; files of no room are shared.
func TestRooms(t *testing.T) {
	plan := rooms.Plan{Below: map[string][]string{
		"client": {"event", "shared"},
		"server": {"event", "shared"},
		"event":  {"shared"},
		"shared": {},
	}}
	plan.Of = func(file string) string {
		first, _, _ := strings.Cut(strings.TrimSuffix(file, ".go"), "_")
		if _, ok := plan.Below[first]; ok {
			return first
		}
		return "shared"
	}
	plan.Check(t)
}
