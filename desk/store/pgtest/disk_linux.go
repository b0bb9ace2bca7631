package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// Disk is a small disk with a database on it, whose tables fail to grow when it is full. The server's log is elsewhere.
type Disk struct{ URL, dir string }

// OnDisk returns an empty database on a disk of so many bytes, which the end of the test removes. Its server is its own: one whose disk is full makes no checkpoint, which
// others need to create databases. A test is skipped where it may not mount a disk, unless EDDY_REQUIRE names
// mount.
func OnDisk(t testing.TB, size int64) *Disk {
	t.Helper()
	s := start(t, installed(t), "")
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	name := "s" + strconv.FormatInt(names.Add(1), 10)
	d := &Disk{dir: filepath.Join(s.dir, name)}
	if err := s.mount(d.dir, size); err != nil {
		if testkit.Required("mount") || !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
		t.Skipf("mount: %v", err)
	}
	run := func(statements ...string) {
		for _, one := range statements {
			if _, err := s.admin.ExecContext(context.Background(), one); err != nil {
				t.Errorf("%s: %v", one, err)
			}
		}
	}
	t.Cleanup(func() {
		d.Free(t)
		run(`DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`, `DROP TABLESPACE IF EXISTS `+name)
		if err := errors.Join(syscall.Unmount(d.dir, syscall.MNT_DETACH), os.Remove(d.dir)); err != nil { // the server may have a file open until it ends
			t.Error(err)
		}
	})
	run(`CREATE TABLESPACE `+name+` LOCATION '`+d.dir+`'`, `CREATE DATABASE `+name+` TEMPLATE template0 TABLESPACE `+name)
	d.URL = s.url(name)
	return d
}

// mount makes a file system in memory that belongs to the server's user.
func (s *server) mount(dir string, size int64) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	as := s.cmd.SysProcAttr.Credential
	if as == nil {
		as = &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700,uid=%d,gid=%d", size, as.Uid, as.Gid))
	if err != nil {
		return errors.Join(fmt.Errorf("a file system in memory: %w", err), os.Remove(dir))
	}
	return nil
}

// Fill takes all room of the disk.
func (d *Disk) Fill(t testing.TB) {
	t.Helper()
	f, err := os.Create(d.filler())
	if err == nil {
		_, err = io.Copy(f, zeros{})
		if errors.Is(err, syscall.ENOSPC) {
			err = nil
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Free gives the room back that Fill has taken.
func (d *Disk) Free(t testing.TB) {
	t.Helper()
	if err := os.Remove(d.filler()); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func (d *Disk) filler() string { return filepath.Join(d.dir, "filler") }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
