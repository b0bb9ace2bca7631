//go:build !eddydebug

package buf

// Debug reports whether the package was built with the tag eddydebug.
const Debug = false

// Poison overwrites released memory with 0xDD in a build with the tag eddydebug,
// and does nothing in others.
func Poison([]byte) {}

func checkPoison([]byte) {}

// checksum guards an adopted slice in a build with the tag eddydebug.
type checksum struct{}

func (checksum) take([]byte)       {}
func (checksum) holds([]byte) bool { return true }
