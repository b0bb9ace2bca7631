package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/trace"
)

// commit runs one group in one transaction. A failing command is undone alone. A failing transaction fails all its
// commands.
func (w *writer) commit(group []*op) {
	w.tx.words, w.tx.rows, w.tx.written, w.tx.told = w.tx.words[:0], w.tx.rows[:0], 0, false
	err := w.transact(group)
	if err != nil && w.tx.session != nil {
		// The database may have rolled back by itself, or have begun nothing. This rollback then fails, which is fine.
		_ = w.tx.force(w.tx.rollback)
	}
	if err == nil {
		w.db.commits.Add(1)
		w.db.commands.Add(uint64(len(group)))
		f := failureOf(group)
		if f != nil {
			w.db.failures.Add(1)
		}
		w.came(f)
		if w.tx.told {
			w.db.news.tell()
		}
		return
	}
	w.db.failures.Add(1)
	w.came(&failure{time.Now(), err})
	if ok, held := w.failures.Allow(failureCounts); ok {
		w.db.o.Logger.Error("store: transaction failed", "commands", len(group), "err", err, "held_back", held)
	}
	for _, o := range group { // the error may be about another one of them: it is told, and is none of the errors of this one
		o.out, o.fed = store.Outcome{Err: fmt.Errorf("%w: %v", store.ErrUnavailable, err)}, nil
	}
}

// transact runs a group from the beginning of its transaction to the end. It returns only an error that spoils all of it.
func (w *writer) transact(group []*op) error {
	if err := w.begin(group[:messages(group)]); err != nil {
		return err
	}
	for len(group) > 0 {
		n := messages(group)
		run, rest := group[:max(n, 1)], group[max(n, 1):]
		finish := w.tx.sync
		if len(rest) == 0 {
			finish = w.end
		}
		var err error
		if n > 0 {
			err = w.together(run, finish)
		} else if err = w.command(run[0]); err == nil && len(rest) == 0 {
			err = finish()
		}
		if err != nil {
			return err
		}
		group = rest
	}
	return nil
}

// messages returns how many of the first commands of a group add messages to conversations that differ: none of these
// commands changes what another one reads.
func messages(group []*op) int {
	seen := make(map[string]bool)
	for i, o := range group {
		if o.ahead == nil || seen[o.ahead.Conv] {
			return i
		}
		seen[o.ahead.Conv] = true
	}
	return len(group)
}

// begin begins a transaction, and reads what its first messages have to know.
func (w *writer) begin(first []*op) error {
	if w.tx.session == nil || w.tx.lost() {
		ctx, cancel := context.WithTimeout(context.Background(), w.db.o.Wait)
		defer cancel()
		if err := w.connect(ctx); err != nil {
			return err
		}
	}
	if err := w.tx.exec(w.tx.begin); err != nil {
		return err
	}
	if err := w.tx.last(); err != nil { // another process may have written, too
		return err
	}
	return w.look(first)
}

// look reads what messages have to know and do not know yet, and waits for that.
func (w *writer) look(run []*op) error {
	for _, o := range run {
		if !o.ahead.known {
			if err := o.ahead.ask(w.tx); err != nil {
				return err
			}
		}
	}
	return w.tx.sync()
}

// end writes what the commands of a transaction have left to its end, and commits.
func (w *writer) end() error {
	commit := func() error { return w.tx.exec(w.tx.end) }
	for _, step := range []func() error{w.tx.addWords, w.tx.flush, w.tx.note, commit, w.tx.sync} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// together adds messages in one savepoint, with as few ways to the database as their statements allow, and finishes. If that
// fails, each of them gets a savepoint of its own, so that only those fail that are at fault. It returns only an error that
// spoils the whole transaction.
func (w *writer) together(run []*op, finish func() error) error {
	before := w.tx.progress()
	err := w.look(run)
	if err == nil {
		err = w.tx.exec(w.tx.savepoint)
	}
	for i := 0; err == nil && i < len(run); i++ {
		err = w.message(run[i])
	}
	if err == nil {
		err = w.tx.exec(w.tx.release)
	}
	if err == nil {
		err = finish()
	}
	if err == nil {
		return nil
	}
	w.tx.untell(before)
	if undo := w.tx.takeBack(); undo != nil { // the connection is lost, or the transaction has ended
		return errors.Join(err, undo)
	}
	for _, o := range run {
		if err := w.command(o); err != nil {
			return err
		}
	}
	if err := w.tx.exec(w.tx.release); err != nil {
		return err
	}
	return finish()
}

// message runs one command without a savepoint. It returns an error if it cannot undo it alone.
func (w *writer) message(o *op) error {
	before, mark := w.tx.progress(), w.tx.mark()
	out, err := w.contained(o)
	if err != nil && !w.tx.forget(mark) {
		return err
	}
	w.settle(o, before, out, err)
	return nil
}

// command runs one command in a savepoint. It returns only an error that spoils the whole transaction.
func (w *writer) command(o *op) error {
	if err := w.tx.exec(w.tx.savepoint); err != nil {
		return err
	}
	before := w.tx.progress()
	out, err := w.contained(o)
	if err == nil {
		err = w.tx.sync() // else the next command would have the error
	}
	w.settle(o, before, out, err)
	if err != nil {
		if undo := w.tx.takeBack(); undo != nil { // the database has rolled everything back, because of err
			return errors.Join(err, undo)
		}
	}
	return w.tx.exec(w.tx.release)
}

// settle notes the outcome of a command that began at that progress. Of one that has failed nothing is told.
func (w *writer) settle(o *op, began progress, out store.Outcome, err error) {
	o.fed = nil
	if err == nil {
		o.fed = w.tx.fed(began.rows, &out)
	} else {
		w.tx.untell(began)
		out.Events, out.Err = nil, classify(err)
	}
	w.tx.part = store.Fed{}
	o.out = out
}

// failureOf returns the fault of the database that shows in a command of a committed group, or nil.
func failureOf(group []*op) *failure {
	for _, o := range group {
		if errors.Is(o.out.Err, store.ErrUnavailable) {
			return &failure{time.Now(), o.out.Err}
		}
	}
	return nil
}

func (w *writer) contained(o *op) (out store.Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			w.db.o.Logger.Error("store: panic in a command", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("store: panic in a command: %v", v)
		}
	}()
	w.tx.trace = o.trace
	o.request.Enter(trace.Handler, "store")
	return o.run(w.tx)
}
