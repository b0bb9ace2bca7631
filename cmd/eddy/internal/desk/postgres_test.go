package desk

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/store/pgtest"
)

// TestDeskOnPostgres moves a desk that has run on a file to PostgreSQL, and goes on there with the same accounts.
func TestDeskOnPostgres(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, nil)
	data, account := cmdtest.MadeDesk(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"desk", "migrate", "--check", "--data", data, "--to", url}, "would be copied"},
		{[]string{"desk", "version", "--data", data, "--store", url}, "no data"},
		{[]string{"desk", "migrate", "--data", data, "--to", url}, "all check sums agree"},
		{[]string{"desk", "migrate", "--data", data, "--store", url}, "the newest"},
		{[]string{"desk", "version", "--data", data, "--store", url}, "schema version"},
	} {
		if out, errs, code := cmdtest.Run(t, c.args...); code != 0 || !strings.Contains(out, c.want) {
			t.Fatalf("%q: exit code %d, %q, %q", c.args, code, out, errs)
		}
	}
	args := []string{"desk", "--addr", "127.0.0.1:0", "--data", data, "--store", url}
	p := cmdtest.StartServer(t, args...)
	p.WaitOutput(p.Out, regexp.MustCompile(`data in postgres://.*\n(.*\n)*.*/console\n`))
	greet(t, p.Addr, account[1], account[2])
	if out, errs, code := cmdtest.Run(t, "desk", "user", "list", "--data", data, "--store", url); code != 0 || !strings.Contains(out, account[1]) {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	other := filepath.Join(t.TempDir(), "other")
	second := []string{"desk", "--addr", "127.0.0.1:0", "--data", other, "--store", url}
	cmdtest.ExpectFailure(t, second, "another place than directory "+filepath.Join(other, "files"), "--files")
	q := cmdtest.StartServer(t, append(second, "--files", filepath.Join(data, "files"))...)
	greet(t, q.Addr, account[1], account[2])
	q.Stop()
	p.Stop()
	if out, errs, code := cmdtest.Run(t, "desk", "recount", "--data", data, "--store", url); code != 0 || !strings.Contains(out, "are right") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	if made, err := filepath.Glob("postgres:*"); err != nil || len(made) > 0 {
		t.Errorf("the address of the database was taken for a directory: %q %v", made, err)
	}
	again := cmdtest.StartServer(t, args...)
	again.WaitOutput(again.Out, regexp.MustCompile(`/console\n`))
	greet(t, again.Addr, account[1], account[2])
	again.Stop()

	cmdtest.ExpectFailure(t, []string{"desk", "migrate", "--data", data, "--to", url}, "has the data", "empty one")
	cmdtest.ExpectFailure(t, []string{"desk", "backup", "--data", data, "--store", url}, "--store", "pg_dump")
	cmdtest.ExpectFailure(t, []string{"desk", "restore", "--data", data, "--store", url, "--from", "x"}, "--store", "pg_restore")
	cmdtest.ExpectFailure(t, []string{"desk", "--data", data, "--files", data}, "--files", "--store")
	cmdtest.ExpectFailure(t, []string{"desk", "--data", data, "--store", "mysql://x"}, "mysql://x", "postgres://")
	cmdtest.ExpectFailure(t, []string{"desk", "--addr", "127.0.0.1:0", "--data", data, "--store", "postgres://desk:secret@127.0.0.1:1/desk?sslmode=disable"}, "127.0.0.1:1", "can be reached")
}
