package buf_test

import (
	"fmt"

	"github.com/go-eddy/eddy/buf"
)

// A message from a loop is valid only during the call; Detach makes a copy to keep.
func ExampleBytes() {
	scratch := []byte("first read")
	borrowed := new(buf.Bytes)
	borrowed.Reset(scratch)
	kept := borrowed.Detach().(*buf.Bytes)
	copy(scratch, "second")
	fmt.Printf("%s, %s\n", borrowed.Bytes(), kept.Bytes())
	// Output: secondread, first read
}
