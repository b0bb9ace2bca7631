package executor

// Job is a Runner whose owner has to know what becomes of it: of one that Enqueue took, either Run is called or Drop,
// exactly once. No Policy touches it.
type Job interface {
	Runner
	// Drop is called instead of Run when the pool was stopped before, on the goroutine that stopped it.
	Drop()
}

// Enqueue takes j if there is room for it and refuses it with ErrRejected if there is none, whatever Options.Policy says;
// a closed pool answers ErrClosed. It calls no worker: the caller must see to it that Wake is called soon, and once does
// for any number of jobs. Until then j waits for a worker that is running anyway. Any goroutine; it never blocks.
func (p *Pool) Enqueue(j Job) error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.enqueueQuietly(j)
}

// kept reports whether no policy may drop r.
func kept(r Runner) bool {
	switch r.(type) {
	case turnRunner, Job:
		return true
	}
	return false
}

// dropKept tells the owners of what a stopped pool will never run, and returns the runners that have none.
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
