package eddy

import (
	"testing"

	"github.com/go-eddy/eddy/internal/rooms"
)

// TestRooms: what carries a connection and its messages names no definition of the face, which starts, ends and describes
// servers, dialers and groups.
func TestRooms(t *testing.T) {
	face := map[string]bool{
		"server.go": true, "engine.go": true, "dialer.go": true, "group.go": true, "options.go": true, "census.go": true,
		"stats.go": true, "simulate.go": true, "inspect.go": true, "overload.go": true,
	}
	rooms.Plan{
		Of: func(file string) string {
			if face[file] {
				return "face"
			}
			return "message"
		},
		Below: map[string][]string{"face": {"message"}, "message": {}},
	}.Check(t)
}
