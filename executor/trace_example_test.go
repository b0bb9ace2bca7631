package executor_test

import (
	"context"
	"fmt"
	"runtime/pprof"

	"github.com/go-eddy/eddy/executor"
)

// spanKey is what a tracing library keeps its span under in a context.
type spanKey struct{}

// startSpan stands for the library: a child of the span in ctx.
func startSpan(ctx context.Context, name string) (context.Context, func()) {
	if parent, _ := ctx.Value(spanKey{}).(string); parent != "" {
		name = parent + "/" + name
	}
	return context.WithValue(ctx, spanKey{}, name), func() { fmt.Println("span", name, "ended") }
}

// Every task of the pool gets a span below the one it was submitted with, and its goroutine a label in profiles.
func ExampleOptions_around() {
	pool, err := executor.NewFixed(executor.Options{
		Name: "db",
		Around: func(ctx context.Context, run func(context.Context)) {
			ctx, end := startSpan(ctx, "task")
			defer end()
			pprof.Do(ctx, pprof.Labels("work", "db"), run)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	request, end := startSpan(context.Background(), "request")
	err = pool.SubmitContext(request, func(ctx context.Context) {
		fmt.Println("running in", ctx.Value(spanKey{}))
	})
	if err != nil {
		fmt.Println(err)
	}
	if _, err := pool.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	end()
	// Output:
	// running in request/task
	// span request/task ended
	// span request ended
}
