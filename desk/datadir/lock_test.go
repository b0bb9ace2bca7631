package datadir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func held(t *testing.T, dir string) *Held {
	t.Helper()
	h, err := Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A directory is in order only if the process before closed the database, and nobody has changed the file since.
func TestInOrder(t *testing.T) {
	dir := t.TempDir()
	db := Database(dir)
	if h := held(t, dir); h.InOrder {
		t.Error("a new directory is in order")
	} else {
		ok(t, h.CloseInOrder()) // without a database
	}
	ok(t, os.WriteFile(db, []byte("a database"), 0o600))
	if h := held(t, dir); h.InOrder {
		t.Error("a database that has appeared is in order")
	} else {
		ok(t, h.Close())
	}
	later := time.Now()
	for _, c := range []struct {
		name   string
		before func(h *Held) error // the end of the process before
		want   bool
	}{
		{"closed in order", (*Held).CloseInOrder, true},
		{"ended before it changed anything", (*Held).Close, false},
		{"closed in order after that", (*Held).CloseInOrder, true},
		{"changed since", func(h *Held) error {
			later = later.Add(time.Hour)
			return errors.Join(h.CloseInOrder(), os.Chtimes(db, later, later))
		}, false},
		{"grown since", func(h *Held) error {
			return errors.Join(h.CloseInOrder(), os.WriteFile(db, []byte("another database"), 0o600), os.Chtimes(db, later, later))
		}, false},
		{"with a log that SQLite has not taken over", func(h *Held) error {
			return errors.Join(os.WriteFile(db+"-wal", []byte("x"), 0o600), h.CloseInOrder(), os.Remove(db+"-wal"))
		}, false},
		{"with a log since", func(h *Held) error { return errors.Join(h.CloseInOrder(), os.WriteFile(db+"-wal", []byte("x"), 0o600)) }, false},
		{"with an empty log", func(h *Held) error { return errors.Join(os.Truncate(db+"-wal", 0), h.CloseInOrder()) }, true},
		{"gone since", func(h *Held) error { return errors.Join(h.CloseInOrder(), os.Remove(db)) }, false},
	} {
		ok(t, c.before(held(t, dir)))
		h := held(t, dir)
		if h.InOrder != c.want {
			t.Errorf("%s: in order %v", c.name, h.InOrder)
		}
		ok(t, h.Close())
	}
}

// While a process has the directory, the file of the lock says nothing of order, so that one that is killed leaves none.
func TestHeldIsNotInOrder(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.WriteFile(Database(dir), []byte("a database"), 0o600), held(t, dir).CloseInOrder())
	h := held(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, lock))
	if err != nil || string(text) != fmt.Sprintln(os.Getpid()) {
		t.Errorf("%q, %v", text, err)
	}
	ok(t, h.Close())
}

// A second process is refused at once, unless the first has the directory only briefly: then it waits, up to a minute.
func TestLockWaitsForABriefHolder(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		type result struct {
			h   *Held
			err error
		}
		lock := func(ctx context.Context) chan result {
			c := make(chan result, 1)
			go func() { h, err := Lock(ctx, dir); c <- result{h, err} }()
			synctest.Wait()
			return c
		}
		brief, err := LockBriefly(dir)
		ok(t, err)
		waits := lock(t.Context())
		if len(waits) > 0 {
			t.Fatalf("did not wait: %v", (<-waits).err)
		}
		if _, err := LockBriefly(dir); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("a second one: %v", err)
		}
		ok(t, brief.Close())
		first := <-waits
		ok(t, first.err)

		from := time.Now()
		second := <-lock(t.Context())
		if !errors.Is(second.err, ErrInUse) || !strings.Contains(second.err.Error(), fmt.Sprint("process ", os.Getpid(), ": stop it")) || time.Since(from) > time.Second {
			t.Errorf("refused after %v: %v", time.Since(from), second.err)
		}
		ok(t, first.h.Close())

		brief, err = LockBriefly(dir)
		ok(t, err)
		from = time.Now()
		if r := <-lock(t.Context()); !errors.Is(r.err, ErrInUse) || time.Since(from) < briefWait || time.Since(from) > 2*briefWait {
			t.Errorf("after %v: %v", time.Since(from), r.err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waits = lock(ctx)
		cancel()
		if r := <-waits; !errors.Is(r.err, ErrInUse) {
			t.Errorf("interrupted: %v", r.err)
		}
		ok(t, brief.Close())
	})
}

// The file may still name the process before: its holder is asked again before anybody is refused.
func TestLockLooksTwice(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h, err := LockBriefly(dir)
		ok(t, err)
		ok(t, h.write("123\n"))
		done := make(chan error, 1)
		go func() {
			got, err := Lock(t.Context(), dir)
			if err == nil {
				err = got.Close()
			}
			done <- err
		}()
		synctest.Wait()
		ok(t, h.write(fmt.Sprint(os.Getpid(), briefly, "\n")))
		time.Sleep(time.Second)
		synctest.Wait()
		if len(done) > 0 {
			t.Errorf("did not wait: %v", <-done)
		}
		ok(t, h.Close(), <-done)
	})
}
