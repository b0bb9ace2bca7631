package cmdtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
)

// AccountPattern finds the login and the password that the first start of a Desk prints.
var AccountPattern = regexp.MustCompile(`login\s+(\S+)\s+password\s+(\S+)`)

// firstDesk is the data directory of a desk that has run, and its account.
var firstDesk struct {
	once    sync.Once
	data    string
	account []string
}

// MadeDesk returns a data directory of a desk that has run before, and what AccountPattern finds of its account. All are
// copies of one, because a new one costs most of what a test with a desk costs.
func MadeDesk(t *testing.T) (data string, account []string) {
	t.Helper()
	first := &firstDesk
	first.once.Do(func() {
		made := filepath.Join(os.Getenv(testHome), "first-desk")
		p := StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", made)
		first.account = p.WaitOutput(p.Out, AccountPattern)
		p.Stop()
		first.data = made
	})
	data = filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(data, os.DirFS(first.data)); err != nil {
		t.Fatal(err)
	}
	return data, slices.Clone(first.account)
}
