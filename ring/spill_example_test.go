package ring_test

import (
	"context"
	"fmt"
	"os"

	"github.com/go-eddy/eddy/ring"
)

// A queue whose overflow lies on disk, in order, and is there again after a restart.
func ExampleSpill() {
	dir, err := os.MkdirTemp("", "spill")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	queue, err := ring.OpenSpill(ring.SpillOptions{Dir: dir, Memory: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range []string{"one", "two", "three", "four"} {
		if err := queue.Send([]byte(m)); err != nil {
			fmt.Println(err) // ring.ErrFull: disk and memory hold what they may
		}
	}
	first, err := queue.Recv(context.Background())
	fmt.Println(string(first), err)
	fmt.Println(queue.Close())

	again, err := ring.OpenSpill(ring.SpillOptions{Dir: dir, Memory: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		m, err := again.Recv(context.Background())
		fmt.Println(string(m), err)
	}
	fmt.Println(again.Close())
	// Output:
	// one <nil>
	// <nil>
	// two <nil>
	// three <nil>
	// four <nil>
	// <nil>
}
