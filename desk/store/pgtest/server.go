//go:build unix

package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"github.com/go-eddy/eddy/internal/testkit"
)

// programs is where Debian puts the programs of a version, other than those for users.
const programs = "/usr/lib/postgresql/*/bin"

// run starts a server whose data is in $2, and ends it when nothing can come from standard input any more, also because
// whoever started it is gone, and its data with it. With $4, the folder of another server's socket, it becomes the standby of that one.
const run = `set -e
if [ "$4" ]; then
	"$1/pg_basebackup" -h "$4" -U eddy -D "$2/data" -R -c fast --no-sync >"$2/log" 2>&1
else
	"$1/initdb" -D "$2/data" -U eddy -A trust -E UTF8 --locale=C --no-sync >"$2/log" 2>&1
fi
"$1/pg_ctl" -D "$2/data" -l "$2/log" -s -w -o "$3" start
cat >/dev/null
[ ! -f "$2/data/postmaster.pid" ] || "$1/pg_ctl" -D "$2/data" -s -w -m immediate stop
rm -rf "$2"`

// settings are those of the server, which has only a socket and need not outlast the machine.
func settings(dir string) string {
	return "-k " + dir + " -c listen_addresses= -c fsync=off -c full_page_writes=off -c max_connections=500"
}

// server is a running PostgreSQL.
type server struct {
	folder, dir string // of the programs, and of the data
	cmd         *exec.Cmd
	stdin       io.Closer
	admin       *sql.DB

	once     sync.Once
	prepared error // why there is no template
}

var (
	mu      sync.Mutex
	running *server
	names   atomic.Int64
)

// Database returns the address of a new database, which the end of the test removes. It is a copy of one that the first
// prepare of the process has been called with, or empty if prepare is nil. A test is skipped on a machine without
// PostgreSQL, unless EDDY_REQUIRE names postgres. Call Close before the process ends.
func Database(t testing.TB, prepare func(url string) error) string {
	t.Helper()
	s := take(t)
	name := s.create(t, prepare)
	t.Cleanup(func() {
		if _, err := s.admin.ExecContext(context.Background(), `DROP DATABASE `+name+` WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	return s.url(name)
}

// Lasting is Database without the end: the database is there until Close.
func Lasting(t testing.TB, prepare func(url string) error) string {
	t.Helper()
	s := take(t)
	return s.url(s.create(t, prepare))
}

// create returns the name of a new database.
func (s *server) create(t testing.TB, prepare func(url string) error) string {
	t.Helper()
	template := "template0"
	if prepare != nil {
		s.once.Do(func() {
			_, err := s.admin.ExecContext(t.Context(), `CREATE DATABASE prepared TEMPLATE template0`)
			s.prepared = errors.Join(err, prepare(s.url("prepared")))
		})
		if s.prepared != nil {
			t.Fatal(s.prepared)
		}
		template = "prepared"
	}
	name := "d" + strconv.FormatInt(names.Add(1), 10)
	testkit.Eventually(t, "nobody else uses the template", func() bool {
		_, err := s.admin.ExecContext(t.Context(), `CREATE DATABASE `+name+` TEMPLATE `+template)
		if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == "55006" {
			return false // a connection to it is about to end
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
	return name
}

func (s *server) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("eddy"), Path: "/" + database, RawQuery: url.Values{"host": {s.dir}}.Encode()}
	return u.String()
}

// take returns the server, which the first caller starts.
func take(t testing.TB) *server {
	t.Helper()
	folder := installed(t)
	mu.Lock()
	defer mu.Unlock()
	if running == nil {
		running = start(t, folder, "")
	}
	return running
}

// installed returns where PostgreSQL's programs are, or skips the test.
func installed(t testing.TB) (folder string) {
	t.Helper()
	if found, err := filepath.Glob(filepath.Join(programs, "initdb")); err == nil && len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	return filepath.Dir(testkit.Tool(t, "postgres"))
}

// start starts a server, as the standby of the one whose folder is primary, unless that is empty.
func start(t testing.TB, folder, primary string) *server {
	t.Helper()
	s, err := begin(folder, primary)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "PostgreSQL answers", func() bool { return s.admin.PingContext(t.Context()) == nil })
	return s
}

func begin(folder, primary string) (*server, error) {
	dir, err := os.MkdirTemp("", "eddy-pg-")
	if err != nil {
		return nil, err
	}
	s := &server{folder: folder, dir: dir, cmd: exec.Command("/bin/sh", "-c", run, "sh", folder, dir, settings(dir), primary)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the tests is not one of the server
	if os.Getuid() == 0 {                                   // PostgreSQL refuses to be root
		if s.cmd.SysProcAttr.Credential, err = other(dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	s.cmd.Dir = dir
	if s.stdin, err = s.cmd.StdinPipe(); err == nil {
		err = s.cmd.Start()
	}
	if err == nil {
		s.admin, err = sql.Open("pgx", s.url("postgres"))
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// other returns the user that the server runs as in place of root, to whom dir then belongs.
func other(dir string) (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("pgtest: no user postgres or nobody to run the server as")
}

// Stop ends the server as a crash does, so that a test sees what its clients do. Call Start before the test ends.
func Stop(t testing.TB) { t.Helper(); take(t).control(t, "-m", "immediate", "stop") }

// Start starts the server again that Stop has ended.
func Start(t testing.TB) { t.Helper(); take(t).control(t, "start") }

func (s *server) control(t testing.TB, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.folder, "pg_ctl"), append([]string{"-D", filepath.Join(s.dir, "data"), "-l", filepath.Join(s.dir, "log"), "-s", "-w"}, args...)...)
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.cmd.SysProcAttr.Credential, Setpgid: true}
	if args[0] == "start" {
		cmd.Args = append(cmd.Args, "-o", settings(s.dir))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pg_ctl %v: %v: %s", args, err, out)
	}
}

// Close ends the server. All tests must have ended.
func Close() error {
	mu.Lock()
	defer mu.Unlock()
	s := running
	if s == nil {
		return nil
	}
	running = nil
	return s.close()
}

func (s *server) close() error {
	err := errors.Join(s.admin.Close(), s.stdin.Close())
	ended := make(chan error, 1)
	go func() { ended <- s.cmd.Wait() }()
	select {
	case end := <-ended:
		if end != nil {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			err = errors.Join(err, fmt.Errorf("PostgreSQL: %w\n%s", end, log))
		}
	case <-time.After(time.Minute):
		err = errors.Join(err, errors.New("PostgreSQL does not end"), syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL), <-ended)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
