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
// objects were allocated in between. For each line of the driver it collects garbage and gives free memory back.
func Serve(addr net.Addr) {
	before := mallocs()
	fmt.Println("listening", addr)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); { // "settle"
		debug.FreeOSMemory()
		fmt.Println("settled")
	}
	fmt.Println("mallocs", mallocs()-before)
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
