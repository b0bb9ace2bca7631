package executor_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-eddy/eddy/executor"
)

func ExamplePool() {
	pool, err := executor.NewFixed(executor.Options{Name: "db", Workers: 8, Queue: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = pool.SubmitFunc(func() { fmt.Println("on a worker") })
	if errors.Is(err, executor.ErrRejected) {
		fmt.Println("busy, try later")
	}
	left, err := pool.Shutdown(context.Background())
	fmt.Println(len(left), err)
	// Output:
	// on a worker
	// 0 <nil>
}

func ExampleStrand() {
	pool, err := executor.NewFixed(executor.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sum := 0 // needs no lock: one item at a time
	strand := executor.NewStrand(pool, 100, func(v int) { sum += v })
	for v := range 5 {
		if err := strand.Submit(v); err != nil {
			fmt.Println(err)
		}
	}
	if _, err := pool.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sum)
	// Output: 10
}

func ExampleKeyed_SubmitAsync() {
	pool, err := executor.NewFixed(executor.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rooms := executor.NewKeyed[string](pool, 100, 10000)
	reply := make(chan func(), 1)
	err = rooms.SubmitAsync("room 7", func(done func()) {
		fmt.Println("question sent")
		reply <- done // the code that gets the answer calls done; no worker waits
	})
	if err != nil {
		fmt.Println(err)
	}
	if err := rooms.Submit("room 7", func() { fmt.Println("next message of the room") }); err != nil {
		fmt.Println(err)
	}
	done := <-reply
	fmt.Println("answer came")
	done()
	if _, err := pool.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// question sent
	// answer came
	// next message of the room
}
