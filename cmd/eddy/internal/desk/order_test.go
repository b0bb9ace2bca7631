package desk

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// TestDeskChecksAfterAKill: a start reads the whole database, and says so, only after a run that did not end in order. Commands
// between two runs change nothing about that.
func TestDeskChecksAfterAKill(t *testing.T) {
	t.Parallel()
	data, _ := cmdtest.MadeDesk(t)
	start := func() (p *cmdtest.Process, checked bool) {
		p = cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data)
		p.WaitOutput(p.Out, regexp.MustCompile(`/console\n`))
		return p, strings.Contains(p.Errs.String(), "checking the database, which was not closed in order or has been changed since")
	}
	ranWell(t, "desk", "version", "--data", data)
	ranWell(t, "desk", "user", "list", "--data", data)
	ranWell(t, "desk", "user", "add", "lin", "--data", data)
	ranWell(t, "desk", "backup", "--data", data, "--to", filepath.Join(t.TempDir(), "backup"))
	p, checked := start()
	if checked {
		t.Errorf("checked after an end in order: %q", p.Errs)
	}
	ranWell(t, "desk", "user", "add", "ada", "--data", data)
	p.Signal(syscall.SIGKILL)
	p.Wait()
	if p, checked = start(); !checked {
		t.Errorf("not checked after a kill: %q", p.Errs)
	}
	p.Stop()
	if p, checked = start(); checked {
		t.Errorf("checked after an end in order: %q", p.Errs)
	}
	p.Stop()
}

// TestUserWaitsForAStartingDesk: a command on the accounts waits while a Desk that has the directory makes its database, and gives
// up with the remedy if that does not come to an end.
func TestUserWaitsForAStartingDesk(t *testing.T) {
	made := filepath.Join(t.TempDir(), "desk.db")
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: made})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		starting, err := datadir.Lock(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		add := func() chan error {
			done := make(chan error, 1)
			go func() {
				done <- onAccounts(t.Context(), &cli.Terminal{Out: io.Discard, Err: io.Discard}, &deskFlags{data: dir}, true, func(context.Context, store.Store) error { return nil })
			}()
			time.Sleep(startWait / 2)
			synctest.Wait()
			return done
		}
		if err := <-add(); err == nil || !strings.Contains(err.Error(), "schema version 0") || !strings.Contains(err.Error(), "stop it") {
			t.Errorf("a Desk that does not come up: %v", err)
		}
		done := add()
		if len(done) > 0 {
			t.Fatalf("did not wait: %v", <-done)
		}
		if err := errors.Join(os.Rename(made, datadir.Database(dir)), <-done, starting.Close()); err != nil {
			t.Error(err)
		}
	})
}
