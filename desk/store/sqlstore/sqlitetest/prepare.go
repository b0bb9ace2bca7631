// Package sqlitetest is for tests: databases with the schema in place.
package sqlitetest

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

var empty = sync.OnceValues(sqlstore.Empty)

// Prepare puts an empty database at path, whose directory is made, for sqlstore.Open to open.
func Prepare(t testing.TB, path string) {
	t.Helper()
	content, err := empty()
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}
