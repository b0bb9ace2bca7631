// Package target is what every Go server of the comparisons has in common: how it talks to the driver.
package target

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
)

// Serve tells the driver where the server listens, returns when the driver ends the standard input, and tells how many
// objects were allocated in between.
func Serve(addr net.Addr) {
	before := mallocs()
	fmt.Println("listening", addr)
	io.Copy(io.Discard, os.Stdin)
	fmt.Println("mallocs", mallocs()-before)
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
