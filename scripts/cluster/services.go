//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
)

// postgres is a server whose data are in a directory, on a socket there.
type postgres struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// runPostgres makes the data in $2 and starts the server, which ends when nothing can come from standard input any more.
const runPostgres = `set -e
"$1/initdb" -D "$2/data" -U desk -A trust -E UTF8 --locale=C >"$2/log" 2>&1
"$1/pg_ctl" -D "$2/data" -l "$2/log" -s -w -o "-k $2 -c listen_addresses= -c max_connections=300" start
cat >/dev/null
"$1/pg_ctl" -D "$2/data" -s -w -m fast stop`

// startPostgres starts a server and waits until it answers.
func startPostgres(ctx context.Context, dir string) (*postgres, error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	p := &postgres{cmd: exec.Command("/bin/sh", "-c", runPostgres, "sh", programs, dir)}
	p.cmd.Dir, p.cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 { // PostgreSQL refuses to be root
		if p.cmd.SysProcAttr.Credential, err = notRoot(dir); err != nil {
			return nil, err
		}
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "postgres", User: url.User("desk"), Path: "/postgres", RawQuery: url.Values{"host": {dir}}.Encode()}
	p.url = u.String()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, p.url)
		if err == nil {
			return p, conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			return nil, errors.Join(fmt.Errorf("PostgreSQL does not begin: %w: %s", err, log), p.stop())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// postgresPrograms returns the directory of initdb.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian puts it
	if err != nil || len(found) == 0 {
		return "", errors.New("initdb is not there: install PostgreSQL 15 or newer, or add its programs to PATH")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// notRoot returns the user that PostgreSQL runs as in place of root, to whom dir then belongs.
func notRoot(dir string) (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("there is no user postgres or nobody to run PostgreSQL as")
}

func (p *postgres) stop() error {
	_ = p.stdin.Close()
	return p.cmd.Wait()
}

// natsServer is a NATS server inside this program, at one address.
type natsServer struct {
	port int
	run  *server.Server // nil = it does not run
}

func startNATS() (*natsServer, error) {
	n := &natsServer{port: server.RANDOM_PORT}
	return n, n.begin()
}

func (n *natsServer) begin() error {
	if n.run != nil {
		return errors.New("NATS runs")
	}
	run, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: n.port, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	go run.Start()
	if !run.ReadyForConnections(patience) {
		run.Shutdown()
		return errors.New("NATS does not begin")
	}
	if addr, ok := run.Addr().(*net.TCPAddr); ok {
		n.port = addr.Port
	}
	n.run = run
	return nil
}

func (n *natsServer) end() {
	if n.run != nil {
		n.run.Shutdown()
		n.run.WaitForShutdown()
		n.run = nil
	}
}

func (n *natsServer) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", n.port) }
