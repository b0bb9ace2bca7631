package sqlstore

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

func TestReopenKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	r := newRig(t, Options{Path: path, Alone: true})
	conv := r.open(false)
	for i := range 10 {
		r.must(text(conv.ID, r.contact.Actor(), fmt.Sprint(i)))
	}
	want, id := r.events(conv.ID, store.StaffSide), r.ID()
	if err := r.DB.Close(); err != nil {
		t.Fatal(err)
	}
	if out := r.do(text(conv.ID, r.contact.Actor(), "x")); !errors.Is(out.Err, store.ErrStopped) {
		t.Fatalf("after close: %v", out.Err)
	}
	r.DB = open(t, Options{Path: path, Alone: true})
	if got := r.events(conv.ID, store.StaffSide); !reflect.DeepEqual(got, want) || r.ID() != id {
		t.Fatalf("got %v, want %v", got, want)
	}
	if out := r.must(text(conv.ID, r.contact.Actor(), "next")); out.Events[0].Seq != 12 {
		t.Fatalf("%+v", out)
	}
	pending, err := r.Cold().BotPending(t.Context())
	if err != nil || len(pending) != 12 || pending[11].Event.Body != "next" {
		t.Fatalf("%d turns wait, want 12 of which the last is new (%v)", len(pending), err)
	}
}

func TestOpenRefusesBadFiles(t *testing.T) {
	good := filepath.Join(t.TempDir(), "desk.db")
	r := newRig(t, Options{Path: good})
	conv := r.open(false)
	for i := range 200 {
		r.must(text(conv.ID, r.contact.Actor(), strings.Repeat(fmt.Sprint(i), 100)))
	}
	if err := r.DB.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	garbage := bytes.Repeat([]byte("not a database "), 1000)
	damaged := bytes.Clone(content)
	for i := 8192; i < len(damaged)-4096; i += 4096 {
		copy(damaged[i:], garbage[:512])
	}
	for name, c := range map[string]struct {
		content []byte
		sql     string
		want    string
	}{
		"garbage":         {content: garbage, want: "is damaged"},
		"truncated":       {content: content[:len(content)/3], want: "is damaged"},
		"damaged pages":   {content: damaged, want: "is damaged"},
		"newer schema":    {content: content, sql: `INSERT INTO schema_version VALUES (999, 0); INSERT OR REPLACE INTO setting (key, value) VALUES ('schema_least', '999')`, want: "schema version 999"},
		"other programme": {content: nil, sql: `CREATE TABLE recipes (name TEXT)`, want: "another program"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "desk.db")
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.sql != "" {
				execOn(t, path, c.sql)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			db, err := Open(t.Context(), Options{Path: path})
			if err == nil {
				_ = db.Close()
				t.Fatal("opened")
			}
			if text := err.Error(); !strings.Contains(text, c.want) || !strings.Contains(text, path) || strings.Contains(text, "\n") {
				t.Errorf("error %q", text)
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

func TestNewFilesArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	newRig(t, Options{Path: path})
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("desk.db%s has mode %v, want only the owner's", suffix, info.Mode())
		}
	}
}

// unprivileged runs the calling test as an ordinary user, because no file is read-only for the superuser: in this process
// if it has no privileges, else in a second one that gives them up. It reports whether the caller is to go on.
func unprivileged(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	const env, nobody = "EDDY_TEST_UNPRIVILEGED", 65534
	if os.Getenv(env) != "" {
		if err := becomeUser(nobody); err != nil {
			t.Fatal(err)
		}
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
	return false
}

func TestOpenRefusesReadOnlyFile(t *testing.T) {
	if !unprivileged(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "desk.db")
	if err := newRig(t, Options{Path: path}).DB.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), Options{Path: path})
	if err == nil {
		_ = db.Close()
		t.Fatal("opened")
	}
	if text := err.Error(); !strings.Contains(text, "cannot be opened for writing") || !strings.Contains(text, path) {
		t.Errorf("error %q", text)
	}
}

func execOn(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.Exec(query)
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
