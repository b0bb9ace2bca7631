package buf_test

import (
	"fmt"

	"github.com/go-eddy/eddy/buf"
)

// What a loop passes on is valid during the call only; Detach makes it one's own.
func ExampleBytes() {
	scratch := []byte("first read")
	borrowed := new(buf.Bytes)
	borrowed.Reset(scratch)
	kept := borrowed.Detach().(*buf.Bytes)
	copy(scratch, "second")
	fmt.Printf("%s, %s\n", borrowed.Bytes(), kept.Bytes())
	// Output: secondread, first read
}
