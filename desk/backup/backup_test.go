package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/backup"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a data directory with an open store.
type world struct {
	*sqlstore.DB
	t    *testing.T
	dir  string
	conv string
	who  store.Actor
}

// theLogo is that of the site of every world.
var theLogo = store.NewLogo("image/png", 40, 30, []byte("not a picture, but what there is"))

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.DB = openStore(t, w.dir)
	site, err := w.CreateSite(t.Context(), store.Site{Key: "demo", Name: "Demo", Logo: theLogo})
	if err != nil {
		t.Fatal(err)
	}
	contact, err := w.CreateVisitor(t.Context(), site, store.Token{1}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	out := w.do(store.Open{Contact: contact, Human: true})
	w.conv, w.who = out.Conv.ID, contact.Actor()
	w.file("ab/one", "first file")
	w.file("cd/two", strings.Repeat("second ", 100_000))
	w.file("incoming/half", "not yet a file")
	return w
}

func openStore(t *testing.T, dir string) *sqlstore.DB {
	t.Helper()
	if _, err := os.Lstat(datadir.Database(dir)); errors.Is(err, fs.ErrNotExist) {
		sqlitetest.Prepare(t, datadir.Database(dir))
	}
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: datadir.Database(dir), Wait: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func (w *world) file(name, content string) {
	w.t.Helper()
	path := filepath.Join(datadir.Files(w.dir), name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) do(cmd store.Command) store.Outcome {
	w.t.Helper()
	result := make(chan store.Outcome, 2)
	w.Do(cmd, time.Now().Add(testkit.Patience), func(out store.Outcome) { result <- out })
	out := <-result
	if out.Err != nil {
		w.t.Fatal(out.Err)
	}
	return out
}

func (w *world) say(text string) {
	w.t.Helper()
	w.do(store.Append{Conv: w.conv, From: w.who, ClientID: uuid.NewString(), Body: text})
}

func texts(t *testing.T, db *sqlstore.DB, conv string) []string {
	t.Helper()
	var all []string
	for after := uint64(0); ; {
		events, more, err := db.Cold().Events(t.Context(), conv, store.StaffSide, after, 200, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			after = e.Seq
			if e.Kind == store.KindText {
				all = append(all, e.Body)
			}
		}
		if !more {
			return all
		}
	}
}

// A backup that is made while messages are written holds a beginning of them, and a restored Desk goes on from there under
// another identity.
func TestBackupUnderLoad(t *testing.T) {
	w := newWorld(t)
	var stop atomic.Bool
	written := make(chan int, 1)
	go func() {
		n := 0
		defer func() { written <- n }() // also if say ends the test
		for ; !stop.Load() && n < 5000; n++ {
			w.say(fmt.Sprint(n))
		}
	}()
	testkit.Eventually(t, "something to be written", func() bool { return len(texts(t, w.DB, w.conv)) > 0 })
	to := filepath.Join(t.TempDir(), "sub", "b1")
	var last, total int64
	m, err := backup.Make(t.Context(), backup.Options{DataDir: w.dir, To: to, Program: "v1", Progress: func(d, n int64) {
		if d > n {
			t.Errorf("progress %d of %d", d, n)
		}
		last, total = d, n
	}})
	stop.Store(true)
	all := <-written
	if err != nil {
		t.Fatal(err)
	}
	if m.Files != 2 || m.Store != w.ID() || m.Program != "v1" || m.Bytes != last || last != total || m.Schema == 0 {
		t.Errorf("%+v, progress %d of %d", m, last, total)
	}

	dir := filepath.Join(t.TempDir(), "restored")
	r, err := backup.Restore(t.Context(), backup.RestoreOptions{From: to, DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if r.ID == w.ID() || r.Kept != "" || r.Manifest != m {
		t.Errorf("%+v", r)
	}
	restored := openStore(t, dir)
	if restored.ID() != r.ID {
		t.Errorf("identity %s, want %s", restored.ID(), r.ID)
	}
	got := texts(t, restored, w.conv)
	if len(got) == 0 || len(got) > all {
		t.Errorf("%d texts of %d", len(got), all)
	}
	for i, text := range got {
		if text != fmt.Sprint(i) {
			t.Fatalf("text %d is %q", i, text)
		}
	}
	if b, err := os.ReadFile(filepath.Join(datadir.Files(dir), "ab", "one")); err != nil || string(b) != "first file" {
		t.Errorf("%q %v", b, err)
	}
	if l, err := restored.Hot().Logo(t.Context(), "demo", theLogo.Hash); err != nil || !reflect.DeepEqual(l, theLogo) {
		t.Errorf("the logo of the site is %+v %v", l, err)
	}
	if info, err := os.Stat(datadir.Database(dir)); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the database is open to others: %v %v", info.Mode(), err)
	}
}

func TestMakeRefuses(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	half := filepath.Join(dir, "half")
	if err := os.Mkdir(half+".partial", 0o700); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := errors.Join(os.Mkdir(garbage, 0o700), os.WriteFile(datadir.Database(garbage), []byte(strings.Repeat("garbage ", 999)), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ data, to, want string }{
		"exists":      {w.dir, dir, "exists already"},
		"interrupted": {w.dir, half, "another backup is being made"},
		"no desk":     {dir, filepath.Join(dir, "x"), "there is no Desk in " + dir},
		"damaged":     {garbage, filepath.Join(dir, "y"), "damaged"},
		"below file":  {w.dir, filepath.Join(datadir.Database(w.dir), "z"), "name a directory"},
	} {
		if _, err := backup.Make(t.Context(), backup.Options{DataDir: c.data, To: c.to}); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, err := os.Lstat(c.to); name != "exists" && err == nil {
			t.Errorf("%s: left something behind", name)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	to := filepath.Join(dir, "cancelled")
	if _, err := backup.Make(ended, backup.Options{DataDir: w.dir, To: to}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left, _ := filepath.Glob(to + "*"); len(left) > 0 {
		t.Errorf("a cancelled backup leaves %v", left)
	}
}

// Whatever is wrong with a backup or with its target, nothing of the target is touched.
func TestRestoreRefuses(t *testing.T) {
	w := newWorld(t)
	w.say("precious")
	good := filepath.Join(t.TempDir(), "good")
	if _, err := backup.Make(t.Context(), backup.Options{DataDir: w.dir, To: good}); err != nil {
		t.Fatal(err)
	}
	spoil := func(file string, change func([]byte) []byte) func(string) {
		return func(dir string) {
			path := filepath.Join(dir, filepath.FromSlash(file))
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	replace := func(old, with string) func([]byte) []byte {
		return func(b []byte) []byte { return []byte(strings.Replace(string(b), old, with, 1)) }
	}
	for name, c := range map[string]struct {
		spoil func(dir string)
		want  string
	}{
		"no manifest":     {func(dir string) { os.Remove(filepath.Join(dir, "manifest.json")) }, "is no backup"},
		"no sums":         {func(dir string) { os.Remove(filepath.Join(dir, "SHA256SUMS")) }, "SHA256SUMS"},
		"manifest":        {spoil("manifest.json", func([]byte) []byte { return []byte("{") }), "damaged"},
		"format":          {spoil("manifest.json", replace(`"format": 1`, `"format": 7`)), "format 7"},
		"file changed":    {spoil("files/ab/one", flip), "files/ab/one"},
		"file missing":    {func(dir string) { os.Remove(filepath.Join(dir, "files", "ab", "one")) }, "files"},
		"database":        {spoil("desk.db", flip), "desk.db"},
		"database begins": {spoil("desk.db", func(b []byte) []byte { copy(b, "garbage garbage garbage"); return b }), "desk.db"},
		"path escapes":    {spoil("SHA256SUMS", replace("files/ab/one", "files/../../one")), "damaged at"},
		"absolute path":   {spoil("SHA256SUMS", replace("files/ab/one", "/etc/passwd")), "damaged at"},
		"no database sum": {spoil("SHA256SUMS", func([]byte) []byte { return nil }), "does not name desk.db"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "b")
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			c.spoil(dir)
			target := filepath.Join(t.TempDir(), "data")
			if _, err := backup.Restore(t.Context(), backup.RestoreOptions{From: dir, DataDir: target}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			for _, path := range []string{datadir.Database(target), datadir.Files(target), datadir.Restore(target)} {
				if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s was made", path)
				}
			}
		})
	}
	if _, err := backup.Restore(t.Context(), backup.RestoreOptions{From: good, DataDir: w.dir}); err == nil || !strings.Contains(err.Error(), "there is a Desk in") {
		t.Errorf("over a Desk: %v", err)
	}
	lock, err := datadir.Lock(t.Context(), w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if _, err := backup.Restore(t.Context(), backup.RestoreOptions{From: good, DataDir: w.dir, Replace: true}); !errors.Is(err, datadir.ErrInUse) {
		t.Errorf("over a running Desk: %v", err)
	}
}

func TestRestoreReplaces(t *testing.T) {
	w := newWorld(t)
	w.say("in the backup")
	to := filepath.Join(t.TempDir(), "b")
	if _, err := backup.Make(t.Context(), backup.Options{DataDir: w.dir, To: to}); err != nil {
		t.Fatal(err)
	}
	w.say("after the backup")
	w.file("ef/three", "third")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := backup.Restore(t.Context(), backup.RestoreOptions{From: to, DataDir: w.dir, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(t, openStore(t, w.dir), w.conv); len(got) != 1 || got[0] != "in the backup" {
		t.Errorf("restored %q", got)
	}
	if got := texts(t, openStore(t, r.Kept), w.conv); len(got) != 2 {
		t.Errorf("kept %q", got)
	}
	for path, there := range map[string]bool{
		filepath.Join(datadir.Files(w.dir), "ef", "three"): false, filepath.Join(datadir.Files(r.Kept), "ef", "three"): true,
		filepath.Join(datadir.Files(w.dir), "cd", "two"): true, datadir.Restore(w.dir): false,
	} {
		if _, err := os.Stat(path); (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A Desk does not start on what an interrupted restore has left, and the restore can be run again.
func TestRestoreInterrupted(t *testing.T) {
	w := newWorld(t)
	to := filepath.Join(t.TempDir(), "b")
	if _, err := backup.Make(t.Context(), backup.Options{DataDir: w.dir, To: to}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(datadir.Restore(dir), "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := datadir.Whole(dir); err == nil || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := backup.Restore(t.Context(), backup.RestoreOptions{From: to, DataDir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := datadir.Whole(dir); err != nil {
		t.Error(err)
	}
	if err := datadir.Whole(t.TempDir()); err != nil {
		t.Errorf("empty: %v", err)
	}
}
