package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

const idFile = "directory-id"

// Belongs makes sure that the files of a database are in this directory. known notes the directory's id with the database,
// unless another one is known there, and returns the one that is.
func (s *Store) Belongs(known func(id string) (string, error)) error {
	id, err := s.id()
	if err != nil {
		return fmt.Errorf("files: the id of directory %s: %w", s.o.Dir, err)
	}
	is, err := known(id)
	if err != nil {
		return err
	}
	if is != id {
		return fmt.Errorf("files: the uploaded files of this database are in another directory than %s: name the one that its other servers have, with --files", s.o.Dir)
	}
	return nil
}

// id returns the id of the directory, which the first process makes that asks.
func (s *Store) id() (string, error) {
	path := filepath.Join(s.o.Dir, idFile)
	fresh := filepath.Join(s.incomingDir(), uuid.NewString())
	if err := os.WriteFile(fresh, []byte(uuid.NewString()+"\n"), 0o600); err != nil {
		return "", err
	}
	linked := os.Link(fresh, path) // all of it, or not at all
	if err := os.Remove(fresh); err != nil {
		return "", err
	}
	if linked != nil && !errors.Is(linked, os.ErrExist) {
		return "", linked
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
