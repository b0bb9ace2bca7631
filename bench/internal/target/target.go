// Package target is what every Go server of the comparisons has in common: how it talks to the driver.
package target

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
)

// Serve tells the driver where the server listens, returns when the driver ends the standard input, and tells how many
// objects were allocated in between. The driver may ask it to collect garbage and give free memory back, and how many goroutines there are.
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
