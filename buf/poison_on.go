//go:build eddydebug

package buf

import (
	"fmt"
	"hash/crc32"
)

// Debug reports whether the package was built with the tag eddydebug.
const Debug = true

const poison = 0xDD

// Poison overwrites released memory with 0xDD in a build with the tag eddydebug,
// and does nothing in others.
func Poison(b []byte) {
	for i := range b {
		b[i] = poison
	}
}

// checkPoison panics when somebody wrote to b after it was poisoned.
func checkPoison(b []byte) {
	for i, c := range b {
		if c != poison {
			panic(fmt.Sprintf("buf: segment of %d bytes was written at %d after it was put back", len(b), i))
		}
	}
}

// checksum guards an adopted slice.
type checksum uint32

func (c *checksum) take(b []byte)       { *c = checksum(crc32.ChecksumIEEE(b)) }
func (c *checksum) holds(b []byte) bool { return *c == checksum(crc32.ChecksumIEEE(b)) }
