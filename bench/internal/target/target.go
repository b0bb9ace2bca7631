// Package target is what all Go servers of the comparisons have in common: how they talk to the driver.
package target

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
)

// Serve tells the driver where the server listens, and returns when the driver ends the standard input. It then reports
// how many objects were allocated in between. The driver may ask for a garbage collection that gives free memory back,
// and for the number of goroutines.
func Serve(addr net.Addr) {
	before := mallocs()
	fmt.Println("listening", addr)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "settle":
			debug.FreeOSMemory()
			fmt.Println("settled")
		case "goroutines":
			fmt.Println("goroutines", runtime.NumGoroutine())
		}
	}
	fmt.Println("mallocs", mallocs()-before)
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
