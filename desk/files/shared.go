package files

import (
	"context"
	"fmt"
)

// Belongs makes sure that the files of a database are in this place. known notes the place's id with the database,
// unless another one is known there, and returns the one that is.
func (s *Store) Belongs(ctx context.Context, known func(ctx context.Context, id string) (string, error)) error {
	id, err := s.o.Place.ID(ctx)
	if err != nil {
		return fmt.Errorf("files: the id of %s: %w", s.o.Place, err)
	}
	is, err := known(ctx, id)
	if err != nil {
		return err
	}
	if is != id {
		return fmt.Errorf("files: the uploaded files of this database are in another place than %s: name the one that its other servers have, with --files", s.o.Place)
	}
	return nil
}
