package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// TestStatementsAreKept: a query is prepared once, whoever asks, and answers each time by its own arguments and by what is stored by then.
func TestStatementsAreKept(t *testing.T) {
	r := newRig(t, Options{})
	before := len(r.hot.db.all)
	var tasks sync.WaitGroup
	for range 8 {
		tasks.Go(func() {
			for range 20 {
				if c, err := r.Hot().Contact(t.Context(), r.contact.ID); err != nil || c.ID != r.contact.ID {
					t.Errorf("%+v, %v", c, err)
				}
				if _, err := r.Hot().Contact(t.Context(), "nobody"); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("nobody: %v", err)
				}
			}
		})
	}
	tasks.Wait()
	if n := len(r.hot.db.all) - before; n != 1 {
		t.Errorf("%d statements are kept", n)
	}
	conv := doOn(r.DB, store.Open{Contact: r.contact}).Conv
	for i := range 3 {
		if out := doOn(r.DB, text(conv.ID, r.contact.Actor(), fmt.Sprint("text ", i))); out.Err != nil {
			t.Fatal(out.Err)
		}
		events, _, err := r.Hot().Events(t.Context(), conv.ID, store.StaffSide, 0, 100, 1<<20)
		if err != nil || events[len(events)-1].Body != fmt.Sprint("text ", i) {
			t.Fatalf("after message %d: %v, %v", i, events, err)
		}
	}
}

// TestStatementsLetGo: what is kept holds no snapshot of the database, which would keep the WAL growing.
func TestStatementsLetGo(t *testing.T) {
	r := newRig(t, Options{})
	for range 20 {
		if _, err := r.Hot().Contact(t.Context(), r.contact.ID); err != nil {
			t.Fatal(err)
		}
		if all, err := r.Hot().Sites(t.Context()); err != nil || len(all) == 0 {
			t.Fatal(all, err)
		}
	}
	doOn(r.DB, store.Open{Contact: r.contact})
	pool, err := sql.Open("sqlite", r.o.dsn()) // another process, such as a backup
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	var busy, log, done int
	err = pool.QueryRowContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &log, &done)
	if err != nil || busy != 0 || log != done {
		t.Errorf("checkpoint: busy %d, %d of %d pages, %v", busy, done, log, err)
	}
}

// TestStatementsFull: more queries than are kept are answered, too.
func TestStatementsFull(t *testing.T) {
	r := newRig(t, Options{})
	for i := range maxStatements + 10 {
		var n int
		if err := r.hot.db.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT %d`, i)).Scan(&n); err != nil || n != i {
			t.Fatalf("query %d: %d, %v", i, n, err)
		}
	}
	if n := len(r.hot.db.all); n != maxStatements {
		t.Errorf("%d statements are kept", n)
	}
	rows, err := r.hot.db.QueryContext(t.Context(), `SELECT 'x'`)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := collect(rows, func(s scanner) (x string, err error) { return x, s.Scan(&x) }); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestReadsAtClose: reads that meet the end of the store are answered, or told that it has ended: they see no error of the driver.
func TestReadsAtClose(t *testing.T) {
	db := open(t, Options{})
	site, err := db.CreateSite(t.Context(), store.Site{Key: "one", Name: "One", BotName: "Eddy"})
	if err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	var begun sync.WaitGroup
	for i := range 8 {
		begun.Add(1)
		readers.Go(func() {
			r := []store.Reader{db.Hot(), db.Cold()}[i%2]
			for n := 0; ; n++ {
				s, err := r.Site(t.Context(), site.ID)
				if err == nil {
					var all []store.Site
					if all, err = r.Sites(t.Context()); err == nil && (len(all) == 0 || s.ID != site.ID) {
						t.Errorf("read %v, %v", s, all)
					}
				}
				if n == 0 {
					begun.Done()
				}
				if errors.Is(err, store.ErrStopped) {
					return
				}
				if err != nil {
					t.Errorf("read %d: %v", n, err)
					return
				}
			}
		})
	}
	begun.Wait()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	readers.Wait()
}

// BenchmarkResumeReads are the reads of one customer that comes back, with statements that are kept and with statements that are not.
func BenchmarkResumeReads(b *testing.B) {
	db, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "desk.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	site, err := db.CreateSite(b.Context(), store.Site{Key: "demo", Name: "Demo", BotName: "Eddy"})
	if err != nil {
		b.Fatal(err)
	}
	contact, err := db.CreateVisitor(b.Context(), site, store.Token{1}, time.Now().Add(time.Hour))
	if err != nil {
		b.Fatal(err)
	}
	conv := doOn(db, store.Open{Contact: contact}).Conv.ID
	doOn(db, text(conv, contact.Actor(), "hello"))
	for _, kept := range []bool{true, false} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			db.hot.db.all = make(map[string]*sql.Stmt)
			for i := 0; !kept && i < maxStatements; i++ {
				db.hot.db.all[fmt.Sprint(i)] = nil
			}
			for b.Loop() {
				_, err1 := db.Hot().ContactByToken(b.Context(), store.Token{1}, time.Now())
				_, err2 := db.Hot().Site(b.Context(), site.ID)
				_, err3 := db.Hot().OfContact(b.Context(), contact.ID)
				_, _, err4 := db.Hot().Events(b.Context(), conv, store.CustomerSide, 1, 200, 1<<17)
				if err := errors.Join(err1, err2, err3, err4); err != nil {
					b.Fatal(err)
				}
			}
			clear(db.hot.db.all)
		})
	}
}
