package sqlstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// On a full disk writes are refused with an error that says so, reads go on, and the store is not ready and says why.
// When there is room again the store goes on by itself, without anything that was refused. It is ready when no write has found
// the disk full for a while, whatever single writes succeed before.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		conv := r.must(store.Open{Contact: r.contact, Human: true}).Conv
		say := func(i int) store.Outcome {
			return doOn(r.DB, store.Append{Conv: conv.ID, From: r.contact.Actor(), ClientID: fmt.Sprint("c", i), Body: strings.Repeat("x", 2000)})
		}
		if out := say(0); out.Err != nil {
			t.Fatal(out.Err)
		}
		limit := func(pages int) { // as a disk of so many pages
			t.Helper()
			if _, err := r.work.tx.session.(*fileSession).conn.ExecContext(t.Context(), fmt.Sprint("PRAGMA max_page_count = ", pages)); err != nil {
				t.Fatal(err)
			}
		}
		limit(1) // SQLite makes it as many as there are
		accepted := 1
		var refused store.Outcome
		for i := 1; i < 1000; i++ {
			if refused = say(i); refused.Err != nil {
				break
			}
			accepted++
		}
		if !errors.Is(refused.Err, store.ErrUnavailable) || !strings.Contains(refused.Err.Error(), "full") {
			t.Fatalf("after %d messages: %v", accepted, refused.Err)
		}
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "the disk is full") || !strings.Contains(err.Error(), "free some space") {
			t.Errorf("ready: %v", err)
		}
		if n := r.Stats().Failures; n == 0 {
			t.Error("no failure is counted")
		}
		if n := storedTexts(r, conv.ID); n != accepted {
			t.Errorf("%d messages are stored, %d were accepted", n, accepted)
		}
		limit(1_000_000)
		if out := say(accepted); out.Err != nil || out.Dup {
			t.Errorf("with room again: %+v", out)
		}
		time.Sleep(failureCounts - time.Millisecond)
		if out := say(accepted + 1); out.Err != nil {
			t.Error(out.Err)
		}
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("ready after single writes: %v", err)
		}
		time.Sleep(time.Millisecond)
		if err := r.Ready(); err != nil {
			t.Errorf("ready again: %v", err)
		}
		if n := storedTexts(r, conv.ID); n != accepted+2 {
			t.Errorf("%d messages are stored, %d were accepted", n, accepted+2)
		}
	})
}

// storedTexts returns how many messages of a conversation are stored.
func storedTexts(r *rig, conv string) (n int) {
	r.t.Helper()
	events, _, err := r.Cold().Events(r.t.Context(), conv, store.StaffSide, 0, 10_000, 1<<30)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == store.KindText {
			n++
		}
	}
	return n
}

// TestFullDiskLogsSeldom: while the disk is full the log has one line for as long as a failed commit counts, which says how
// many it stands for.
func TestFullDiskLogsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRig(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		fail := func(n int) {
			t.Helper()
			for range n {
				done := make(chan store.Outcome, 2)
				full := func(*tx) (store.Outcome, error) { return store.Outcome{}, r.work.tx.exec(r.work.tx.rollback) }
				r.work.enqueue(&op{run: full, done: func(out store.Outcome) { done <- out }}, time.Now().Add(time.Minute))
				if out := <-done; !errors.Is(out.Err, store.ErrUnavailable) {
					t.Fatalf("a command that ends the transaction: %v", out.Err)
				}
			}
		}
		before := r.Stats().Failures
		fail(20)
		time.Sleep(failureCounts)
		fail(1)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "held_back=0") || !strings.Contains(lines[1], "held_back=19") {
			t.Errorf("%d lines: %s", len(lines), log.String())
		}
		if n := r.Stats().Failures - before; n != 21 {
			t.Errorf("%d failures are counted, want 21", n)
		}
	})
}
