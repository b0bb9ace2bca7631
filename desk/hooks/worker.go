package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// worker tells one webhook. It goes in rounds: a round reads what there is to tell, sends the first of each lane at once
// and those behind them in turn, and stores what has become of them. What failed waits in the store with everything
// behind it in its lane, so that other lanes go on.
type worker struct {
	h    *Hooks
	id   string
	kick chan struct{} // holds one element while the webhook has changed

	mu     sync.Mutex
	failed map[string]bool // lanes that have failed since the last success, at most breakAfter
	tries  int             // requests that have failed since there are so many
	n      Stats
}

func newWorker(h *Hooks, id string) *worker {
	return &worker{h: h, id: id, kick: make(chan struct{}, 1), failed: make(map[string]bool)}
}

// wake tells the worker how its webhook is set up now. kick ends its rest.
func (w *worker) wake(hook *store.Webhook, kick bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n.ID = w.id
	if u, err := url.Parse(hook.URL); err == nil {
		w.n.Host = u.Host
	}
	if kick {
		w.look()
	}
}

// look ends the worker's rest.
func (w *worker) look() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

func (w *worker) stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.n
	n.Failing = w.broken()
	return n
}

// broken reports whether the webhook gets one request at a time. One event that it cannot take is no reason. w.mu is held.
func (w *worker) broken() bool { return len(w.failed) >= breakAfter }

func (w *worker) run(ctx context.Context) {
	defer w.h.ended(w)
	pause := storePause
	for ctx.Err() == nil {
		news := w.h.o.Store.OutboxNews() // before the look, so that nothing is missed
		rest, broken, err := w.round(ctx)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return
		case err != nil && ctx.Err() == nil:
			w.h.o.Logger.Warn("desk: a webhook has to wait, because the store failed", "webhook", w.id, "err", err)
			rest, news, pause = pause, nil, min(2*pause, maxPause)
		default:
			pause = storePause
		}
		if broken {
			news = nil
		}
		w.sleep(ctx, rest, news)
	}
}

// sleep ends with the time, with news, with ctx, or when the webhook has changed.
func (w *worker) sleep(ctx context.Context, d time.Duration, news <-chan struct{}) {
	if d <= 0 {
		return
	}
	after, stop := w.h.o.After(d)
	defer stop()
	select {
	case <-after:
	case <-news:
	case <-w.kick:
	case <-ctx.Done():
	}
}

// round is what one round works on.
type round struct {
	w      *worker
	work   store.HookWork
	now    time.Time
	broken bool // one request only
	lanes  map[string][]store.HookEvent
	order  []string // of the lanes
	keep   store.HookProgress
	more   bool // there are more rows to look at
}

// round tells the webhook what it may be told now. It returns how long to rest, and whether news must not end that.
func (w *worker) round(ctx context.Context) (rest time.Duration, broken bool, err error) {
	r, err := w.read(ctx)
	if err != nil {
		return 0, false, err
	}
	if err := r.send(ctx); err != nil {
		return 0, false, err
	}
	if len(r.order) > 0 || r.keep.Position != r.work.Position || len(r.keep.Keep) > 0 {
		if err := w.h.o.Store.SaveHook(ctx, r.keep); err != nil {
			return 0, false, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	broken = w.broken()
	switch {
	case broken && len(r.order) > 0:
		rest = min(firstWait<<min(max(w.tries-1, 0), 10), maxRest)
		rest += rand.N(rest / 4)
	case r.more || len(r.order) > 0:
		return 0, broken, nil
	case r.work.NextDue > 0:
		rest = time.UnixMilli(r.work.NextDue).Sub(r.now)
	}
	if rest <= 0 || rest > lookAgain && !broken {
		rest = lookAgain
	}
	return rest, broken && len(r.order) > 0, nil
}

// read collects what the webhook may be told now.
func (w *worker) read(ctx context.Context) (*round, error) {
	release, err := w.h.o.Turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	r := &round{w: w, now: w.h.o.Now(), lanes: make(map[string][]store.HookEvent)}
	if r.work, err = w.h.o.Store.Cold().HookWork(ctx, w.id, r.now.UnixMilli(), lanes); err != nil {
		return nil, err
	}
	w.mu.Lock()
	r.broken = w.broken()
	w.mu.Unlock()
	r.keep = store.HookProgress{Hook: w.id, Position: r.work.Position, Failing: r.work.Failing, Failure: r.work.Failure}
	for i := range r.work.Due {
		if len(r.order) < r.most() {
			r.add(r.work.Due[i])
		}
	}
	page, err := w.h.o.Store.Cold().Outbox(ctx, r.work.Position, pageRows)
	if err != nil {
		return nil, err
	}
	r.pass(page.Floor)
	r.more = r.take(page.Rows) && len(page.Rows) == pageRows
	w.mu.Lock()
	w.n.Behind, w.n.Waiting = max(page.Last-r.keep.Position, 0), r.work.Waiting
	w.mu.Unlock()
	return r, nil
}

// most is how many lanes get a request.
func (r *round) most() int {
	if r.broken {
		return 1
	}
	return lanes
}

func (r *round) add(e store.HookEvent) {
	lane := e.Lane()
	if r.lanes[lane] == nil {
		r.order = append(r.order, lane)
	}
	r.lanes[lane] = append(r.lanes[lane], e)
}

// pass goes on behind rows that were deleted before the webhook was told.
func (r *round) pass(floor int64) {
	if floor <= r.keep.Position {
		return
	}
	r.keep.Lost = floor - r.keep.Position
	r.keep.Position = floor
	r.w.mu.Lock()
	r.w.n.Lost += uint64(r.keep.Lost)
	r.w.mu.Unlock()
	r.w.h.o.Logger.Warn("desk: events were deleted before a webhook could be told", "webhook", r.w.id, "events", r.keep.Lost)
}

// take goes through new rows in order, and reports whether there was room for all.
func (r *round) take(rows []store.OutboxRow) bool {
	hopeless := r.broken && r.work.Failing > 0 && r.now.Sub(time.UnixMilli(r.work.Failing)) >= GiveUp
	for i := range rows {
		row := &rows[i]
		lane := row.Lane()
		switch {
		case !r.work.Wants(row):
		case hopeless && r.old(row):
			r.give(store.HookEvent{OutboxRow: *row, Failure: "not tried: the webhook has failed all day"})
		case slices.Contains(r.work.Lanes, lane):
			if r.work.Waiting+len(r.keep.Keep) >= store.MaxHookWait {
				return false
			}
			r.keep.Keep = append(r.keep.Keep, store.HookEvent{OutboxRow: *row})
		case r.lanes[lane] == nil && len(r.order) >= r.most(), r.work.Waiting+len(r.keep.Keep)+pageRows > store.MaxHookWait:
			return false
		default:
			r.add(store.HookEvent{OutboxRow: *row})
		}
		r.keep.Position = row.Seq
	}
	return true
}

func (r *round) old(row *store.OutboxRow) bool {
	return r.now.Sub(time.UnixMilli(row.Time)) >= GiveUp
}

// give gives an event up.
func (r *round) give(e store.HookEvent) {
	e.Dead = r.now.UnixMilli()
	r.keep.Keep = append(r.keep.Keep, e)
	r.w.mu.Lock()
	r.w.n.Dead++
	r.w.mu.Unlock()
}

// result is what has become of one lane.
type result struct {
	lane    string
	done    int // events that need not be sent any more
	sent    int // of them
	failure error
	lost    error // of the store
}

// send sends every lane and notes what has become of it.
func (r *round) send(ctx context.Context) error {
	results := make(chan result, len(r.order))
	for _, lane := range r.order {
		go func() { results <- r.sendLane(ctx, lane) }()
	}
	all := make(map[string]result)
	var lost error
	for range r.order {
		res := <-results
		all[res.lane] = res
		lost = errors.Join(lost, res.lost)
	}
	if lost != nil || ctx.Err() != nil {
		return errors.Join(lost, ctx.Err())
	}
	sent := 0
	for _, lane := range r.order {
		r.note(all[lane])
		sent += all[lane].sent
	}
	if sent > 0 {
		r.keep.Failing = 0
	}
	return nil
}

func (r *round) sendLane(ctx context.Context, lane string) result {
	res := result{lane: lane}
	for i := range r.lanes[lane] {
		e := &r.lanes[lane][i]
		body, err := r.tell(ctx, e)
		if err != nil {
			res.lost = err
			return res
		}
		if body != nil {
			if res.failure = r.w.post(ctx, &r.work.Webhook, e, body); res.failure != nil {
				return res
			}
			res.sent++
		}
		res.done++
	}
	return res
}

func (r *round) tell(ctx context.Context, e *store.HookEvent) (json.RawMessage, error) {
	release, err := r.w.h.o.Turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return r.w.h.o.Tell(ctx, &e.OutboxRow)
}

// note takes over what has become of a lane.
func (r *round) note(res result) {
	events := r.lanes[res.lane]
	r.w.mu.Lock()
	r.w.n.Delivered += uint64(res.sent)
	switch {
	case res.failure != nil:
		r.w.n.Failed++
		if r.w.broken() {
			r.w.tries++
		} else {
			r.w.failed[res.lane] = true
		}
	case res.sent > 0:
		r.w.tries, r.keep.Failure = 0, ""
		clear(r.w.failed)
	}
	r.w.mu.Unlock()
	for i := range res.done {
		if events[i].Seq <= r.work.Position { // it waited in the store
			r.keep.Done = append(r.keep.Done, events[i].Seq)
		}
	}
	if res.failure == nil {
		return
	}
	if r.keep.Failing == 0 {
		r.keep.Failing = r.now.UnixMilli()
	}
	r.keep.Failure = res.failure.Error()
	e := events[res.done]
	e.Attempts++
	e.Failure = res.failure.Error()
	if r.old(&e.OutboxRow) {
		r.give(e)
	} else {
		wait := min(firstWait<<min(e.Attempts-1, 20), maxWait)
		e.Due = r.now.Add(wait + rand.N(wait/4)).UnixMilli()
		r.keep.Keep = append(r.keep.Keep, e)
	}
	r.keep.Keep = append(r.keep.Keep, events[res.done+1:]...) // behind it
}
