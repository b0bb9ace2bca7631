// Package datadir knows the directory in which one Desk keeps everything: its names, and the process that has it.
package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Names in a data directory.
const (
	database = "desk.db"
	files    = "files"
	lock     = "desk.lock"
	restore  = "restore.partial"
)

// Database returns the path of the database.
func Database(dir string) string { return filepath.Join(dir, database) }

// Files returns the path of the directory of uploaded files.
func Files(dir string) string { return filepath.Join(dir, files) }

// Restore returns the path of the directory that a restore works in. The directory is left behind when a restore is
// interrupted.
func Restore(dir string) string { return filepath.Join(dir, restore) }

// Whole returns an error if a restore into the directory was interrupted after it had begun to change the directory.
func Whole(dir string) error {
	_, err := os.Lstat(Restore(dir))
	if err == nil {
		_, err = os.Lstat(Database(dir))
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("desk: a restore into data directory %s was interrupted: run it again", dir)
		}
	}
	return nil
}
