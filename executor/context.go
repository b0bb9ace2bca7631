package executor

import (
	"context"
	"runtime/pprof"
)

// Contexter is implemented by what carries a context of its own: a Runner, an item of a strand. Options.Around is given it.
type Contexter interface {
	// Context returns the context to run in, nil for none.
	Context() context.Context
}

// SubmitContext is Submit for a function that is given ctx, or what Options.Around makes of it: the values of ctx travel
// with the task. It runs also if ctx has ended meanwhile; f asks ctx. f and ctx must not be nil.
func (p *Pool) SubmitContext(ctx context.Context, f func(ctx context.Context)) error {
	return p.Submit(newContextTask("SubmitContext", ctx, f))
}

// SubmitContext is Submit for a function that is given ctx, see Pool.SubmitContext.
func (k *Keyed[K]) SubmitContext(ctx context.Context, key K, f func(ctx context.Context)) error {
	t := newContextTask("Keyed.SubmitContext", ctx, f)
	return k.submit(key, keyTask{f: func() { k.pool.around(t.ctx, t.f) }})
}

func newContextTask(method string, ctx context.Context, f func(context.Context)) *contextTask {
	if ctx == nil || f == nil {
		panic("executor: " + method + " of a nil context or function")
	}
	return &contextTask{ctx, f}
}

// contextTask is a task with the context it was submitted with.
type contextTask struct {
	ctx context.Context
	f   func(context.Context)
}

// Run implements Runner.
func (t *contextTask) Run() { t.f(t.ctx) }

// runAround runs r in the hook. Turns have none: each of their items has its own.
func (p *Pool) runAround(r Runner) {
	switch r := r.(type) {
	case turnRunner:
		r.Run()
	case *contextTask:
		p.around(r.ctx, r.f)
	default:
		p.around(contextOf(r), func(context.Context) { r.Run() })
	}
}

// contextOf returns the context that v carries.
func contextOf(v any) context.Context {
	if c, ok := v.(Contexter); ok {
		if ctx := c.Context(); ctx != nil {
			return ctx
		}
	}
	return context.Background()
}

// around calls f through the hook, and by itself if the hook does not.
func (p *Pool) around(ctx context.Context, f func(context.Context)) {
	if p.o.Around == nil {
		f(ctx)
		return
	}
	ctx = pprof.WithLabels(ctx, p.labelSet)
	ran := false
	once := func(ctx context.Context) {
		if !ran {
			ran = true
			f(ctx)
		}
	}
	defer func() { once(ctx) }()
	p.o.Around(ctx, once)
}
