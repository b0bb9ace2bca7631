package sqlstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Blank makes a database of PostgreSQL as empty as Empty: it has the schema. It is for tests, which copy it.
func Blank(url string) error {
	ctx := context.Background()
	db, err := Open(ctx, Options{URL: url, Wait: time.Minute})
	if err != nil {
		return err
	}
	return errors.Join(db.write(ctx, forget), db.Close())
}

// forget takes the identity away.
func forget(t *tx) error { return t.exec(`DELETE FROM setting WHERE key = 'store_id'`) }

// Empty returns the content of an empty database of the newest version. It lacks even an identity, which Open gives it.
// Empty is for tests, which need many databases, because opening a copy takes a tenth of the time of making one.
func Empty() (content []byte, err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "eddy-empty-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "empty.db")
	db, err := Open(ctx, Options{Path: path, Wait: time.Minute}) // a failure here fails every test of the process
	if err != nil {
		return nil, err
	}
	if err := errors.Join(db.write(ctx, forget), db.Close()); err != nil { // the last connection takes the write-ahead log into the file
		return nil, err
	}
	return os.ReadFile(path)
}
