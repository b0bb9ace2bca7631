package executor_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-eddy/eddy/executor"
)

// Heavy work has a lane of its own, so that light work never waits for it. All results come back to one goroutine.
func ExampleLanes() {
	results := make(chan struct{}, 1)
	lanes, err := executor.NewLanes(executor.LanesOptions[int, string]{
		Lanes: []executor.Lane{{Name: "light", Heaviness: 10}, {Name: "heavy", Heaviness: 100, Workers: 2}},
		Run:   func(lane int, in *int, out *string) { *out = fmt.Sprintf("%d in lane %d", *in, lane) },
		Wake:  func() error { results <- struct{}{}; return nil },
	})
	if err == nil {
		err = lanes.Start()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, weight := range []int{3, 70, 8} {
		if err := lanes.Submit(lanes.For(weight), weight); err != nil {
			fmt.Println(err) // that lane is full
		}
	}
	var all []string
	for len(all) < 3 {
		<-results
		lanes.Collect(0, func(out *string) { all = append(all, *out) })
	}
	slices.Sort(all)
	fmt.Println(all, "lost:", lanes.Stop(context.Background()))
	// Output: [3 in lane 0 70 in lane 1 8 in lane 0] lost: 0
}

// Tasks of one conversation run one after the other, those of different ones side by side.
func ExampleKeyed() {
	pool, err := executor.NewFixed(executor.Options{Name: "conversations", Workers: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	conversations := executor.NewKeyed[string](pool, 100, 10_000)
	messages := map[string]*[]int{"ann": {}, "bob": {}}
	for i := range 6 {
		who := []string{"ann", "bob"}[i%2]
		list := messages[who] // needs no lock: one task of a key at a time
		if err := conversations.Submit(who, func() { *list = append(*list, i) }); err != nil {
			fmt.Println(err)
		}
	}
	if _, err := pool.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(*messages["ann"], *messages["bob"])
	// Output: [0 2 4] [1 3 5]
}
