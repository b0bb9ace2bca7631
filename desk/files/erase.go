package files

import (
	"context"
	"errors"
)

// Erase makes the Keeper remove soon what is left of contacts that are erased. It does not block. Every round does so, too.
func (k *Keeper) Erase() {
	select {
	case k.asked <- struct{}{}:
	default: // it will
	}
}

// eraseAsked is the work between two rounds.
func (k *Keeper) eraseAsked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	k.failed = nil
	if err := k.erase(ctx); err != nil {
		return err
	}
	return errors.Join(k.failed, k.addUp(ctx))
}

// erase removes conversations of erased contacts, with the bytes of their files.
func (k *Keeper) erase(ctx context.Context) error {
	for range closedBatches {
		d, err := k.o.Store.EraseMore(ctx, closedAtOnce)
		if err != nil {
			return err
		}
		k.remove(ctx, d.Files)
		if !d.More {
			return nil
		}
	}
	k.Erase()
	return nil
}
