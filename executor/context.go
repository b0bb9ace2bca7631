package executor

import (
	"context"
	"runtime/pprof"
)

// Contexter is implemented by a Runner or a strand's item that carries a context of its own. Options.Around is given
// that context.
type Contexter interface {
	// Context returns the context to run in, nil for none.
	Context() context.Context
}

// SubmitContext is Submit for a function that takes a context. f gets ctx, or the context that Options.Around made of
// it, so the values of ctx travel with the task. The task runs even if ctx has ended meanwhile, so f must check ctx
// itself. f and ctx must not be nil.
func (p *Pool) SubmitContext(ctx context.Context, f func(ctx context.Context)) error {
	return p.Submit(newContextTask("SubmitContext", ctx, f))
}

// SubmitContext is Submit for a function that takes a context; see Pool.SubmitContext.
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

// runAround runs r inside the hook Options.Around. A turn runs without it, because each of its items calls the hook
// itself.
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

// around calls f through the hook, or directly if there is no hook or the hook did not call it.
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
