package buf_test

import (
	"fmt"
	"io"
	"os"

	"github.com/go-eddy/eddy/buf"
)

// One buffer for several holders: each has a reference of its own, and the last release returns the memory.
func ExampleSharedPool() {
	pool := buf.NewSharedPool(0, nil)
	msg := pool.Copy([]byte("to everybody"))
	for range 3 {
		go func(m *buf.Shared) { m.Release() }(msg.Retain())
	}
	fmt.Printf("%s\n", msg.Bytes())
	msg.Release()
	// Output: to everybody
}

// A header and a body that read as one; neither is copied.
func ExampleComposite() {
	header, body := []byte("LEN 4\n"), []byte("body")
	var c buf.Composite
	if err := c.Append(header); err != nil {
		panic(err)
	}
	if err := c.Append(body); err != nil {
		panic(err)
	}
	fmt.Println(c.Len(), "bytes, body at", c.Index([]byte("\n"), 0)+1)
	_, _ = io.Copy(os.Stdout, c.Reader())
	// Output:
	// 10 bytes, body at 6
	// LEN 4
	// body
}
