package desk

import (
	"database/sql"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
)

// install puts a program in the place of another one, as an operator does: beside it, and then with one rename.
func install(t *testing.T, at string) {
	t.Helper()
	from, err := os.Open(cmdtest.Program().Path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(at+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at+".new", at); err != nil {
		t.Fatal(err)
	}
}

// TestUpgradeWithOpenChats exchanges the program under open chats in which everybody goes on writing: the old one is told to end, and the
// new one takes its port and its data. Then back to the old one. Everybody is told to come back, with a close code that says so; everything
// that was written is there once and in order, at everybody's; nobody is ever refused for good.
func TestUpgradeWithOpenChats(t *testing.T) {
	t.Parallel()
	const customers, taken, open = 3, 2, 3
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	ctx := testkit.Context(t)
	data, account := cmdtest.MadeDesk(t)
	eddy := filepath.Join(t.TempDir(), "eddy")
	start := func(addr string) *cmdtest.Process {
		t.Helper()
		cmd := exec.Command(eddy, "desk", "--addr", addr, "--data", data, "--routing", "manual")
		cmd.Env = cmdtest.Program().Env
		return cmdtest.StartProcess(t, cmd)
	}
	install(t, eddy)
	old := start("127.0.0.1:0")
	base := "http://" + old.Addr // of all of them
	web := desktest.NewWeb(func() string { return base })
	defer web.CloseIdle()
	agent := web.Agent(account[1], account[2])
	defer agent.Close()
	senders := gatherSenders(ctx, t, web, agent, customers, taken)

	const swaps = 2 // there and back again
	for range swaps {
		before := acked(senders)
		for _, s := range senders {
			s.fill(open)
		}
		waitAcks(ctx, t, senders, before+random.IntN(len(senders)*open))
		install(t, eddy)
		welcomes := make([]int, len(senders))
		for i, s := range senders {
			_, welcomes[i] = s.client.Welcome()
		}
		old.Signal(syscall.SIGTERM)
		if code := old.Wait(); code != 0 || !strings.Contains(old.Errs.String(), "all connections drained, database closed\n") {
			t.Errorf("exit code %d; %s", code, old.Errs)
		}
		old = start(old.Addr)
		for i, s := range senders {
			s.fill(open)
			if err := s.client.Welcomed(ctx, welcomes[i]+1); err != nil {
				t.Fatalf("%s does not come back: %v", s.name, err)
			}
		}
	}
	for _, s := range senders {
		if err := s.client.Flushed(ctx); err != nil {
			t.Fatal(err)
		}
		// One for each program that ended, and one for each attempt to come back while it was ending.
		if got := s.client.Closes(); len(got) < swaps || slices.ContainsFunc(got, func(code int) bool { return code != proto.CloseDraining }) {
			t.Errorf("%s: connections ended with %v", s.name, got)
		}
		if n := countFrames(s.client, "bye"); n != swaps {
			t.Errorf("%s: was told %d times to come back", s.name, n)
		}
		for _, e := range s.client.Refusals() {
			if e.RetryMS == 0 {
				t.Errorf("%s: refused for good: %+v", s.name, e)
			}
		}
	}
	checkLogs(ctx, t, web, account, senders)
	old.Stop()
}

func countFrames(c *desktest.Client, kind string) (n int) {
	for _, f := range c.Others() {
		if f.T == kind {
			n++
		}
	}
	return n
}

// TestOlderProgramRefusesNewerData: a program that meets the data of a newer one says so, names what to do, and leaves them as they are.
func TestOlderProgramRefusesNewerData(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(data, "desk.db")
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: file})
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err == nil {
		_, err = db.Exec(`INSERT INTO schema_version SELECT max(version) + 1, 0 FROM schema_version;
			INSERT OR REPLACE INTO setting (key, value) SELECT 'schema_least', max(version) FROM schema_version`)
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"desk", "--addr", "127.0.0.1:0"}, {"desk", "migrate"}, {"desk", "backup", "--to", filepath.Join(t.TempDir(), "backup")}} {
		cmdtest.ExpectFailure(t, append(command, "--data", data), file, "start a newer eddy")
	}
	if after, err := os.ReadFile(file); err != nil || !slices.Equal(before, after) {
		t.Errorf("the database was changed (%v)", err)
	}
}
