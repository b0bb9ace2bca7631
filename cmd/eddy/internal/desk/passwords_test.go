package desk

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// TestPasswordMemory: passwords of a server and of the commands cost what the flag or the environment says, and nothing below the bound is taken.
func TestPasswordMemory(t *testing.T) {
	t.Parallel()
	var usual passwordCost
	if usual.register(new(cobra.Command)); usual.memory != 64<<20 {
		t.Errorf("%s is the default", &usual.memory)
	}
	data := filepath.Join(t.TempDir(), "data")
	p := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data, "--password-memory", "10MiB")
	for _, args := range [][]string{
		{"add", "lin", "--password-memory", "8MiB"},
		{"add", "moe"},
		{"add", "ann"}, // by the environment
		{"password", "moe", "--password-memory", "9MiB"},
	} {
		ranWell(t, append([]string{"desk", "user", "--data", data}, args...)...)
	}
	p.Stop()
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(data, "desk.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for login, want := range map[string]string{"agent": "m=10240,t=3,p=1", "ann": "m=7168,t=3,p=1", "lin": "m=8192,t=3,p=1", "moe": "m=9216,t=3,p=1"} {
		a, err := db.Cold().AgentByLogin(t.Context(), login)
		if err != nil || !strings.HasPrefix(a.Password, "$argon2id$v=19$"+want+"$") {
			t.Errorf("%s has the hash %.40s, %v; want %s", login, a.Password, err, want)
		}
	}
	for _, args := range [][]string{
		{"desk", "--data", data, "--password-memory", "6MiB"},
		{"desk", "--data", data, "--password-memory", "2GiB"},
		{"desk", "user", "add", "jo", "--data", data, "--password-memory", "6MiB"},
	} {
		cmdtest.ExpectFailure(t, args, "--password-memory is ", "give 7MiB to 1GiB")
	}
}
