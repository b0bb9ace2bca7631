package executor

// Job is a Runner whose owner must learn what becomes of it. For each Job that Enqueue took, either Run or Drop is
// called, exactly once. No Policy touches a Job.
type Job interface {
	Runner
	// Drop is called instead of Run when the pool is stopped first, on the goroutine that stops it.
	Drop()
}

// Enqueue takes j if there is room for it, and returns ErrRejected if there is none, whatever Options.Policy says. A
// closed pool returns ErrClosed. Enqueue wakes no worker, so the caller must call Wake soon; one call serves any number
// of jobs. Until then j waits for a worker that is running anyway. Any goroutine; Enqueue never blocks.
func (p *Pool) Enqueue(j Job) error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.enqueueQuietly(j)
}

// kept reports whether policies must not drop r.
func kept(r Runner) bool {
	switch r.(type) {
	case turnRunner, Job:
		return true
	}
	return false
}

// dropKept tells the owners of runners that a stopped pool will never run, and returns the runners without an owner to
// tell.
func (p *Pool) dropKept(left []Runner) (rest []Runner) {
	for _, r := range left {
		switch r := r.(type) {
		case turnRunner:
			if !r.drop() {
				rest = append(rest, r)
			}
		case Job:
			p.dropJob(r)
		default:
			rest = append(rest, r)
		}
	}
	return rest
}

func (p *Pool) dropJob(j Job) {
	defer p.contain()
	j.Drop()
}
