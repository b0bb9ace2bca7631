package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// errLeaseLost is the error of registrations whose lease has ended.
var errLeaseLost = errors.New("etcd: the lease has ended, because etcd was out of reach for too long or has lost its memory")

// lease is what etcd removes all registrations of a registry with, when the registry does not renew it.
type lease struct {
	id    clientv3.LeaseID
	ended chan struct{} // closed when it has ended
}

func (l *lease) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// leased returns the lease of all registrations, a new one if the last has ended.
func (r *Registry) leased(ctx context.Context, client *clientv3.Client) (*lease, error) {
	r.granting.Lock()
	defer r.granting.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	l := r.lease
	r.mu.Unlock()
	if l != nil && !l.over() {
		return l, nil
	}
	requested, cancel := request(ctx)
	defer cancel()
	granted, err := client.Grant(requested, int64(r.o.TTL/time.Second))
	if err != nil {
		return nil, fmt.Errorf("etcd: a lease: %w", err)
	}
	renewals, err := client.KeepAlive(r.keep.Context(), granted.ID)
	if err != nil {
		return nil, fmt.Errorf("etcd: renewing a lease: %w", err)
	}
	l = &lease{id: granted.ID, ended: make(chan struct{})}
	err = r.keep.Go(func() {
		defer close(l.ended)
		for range renewals { // The client closes it when the lease has ended.
		}
	})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease = l
	return l, nil
}

// key is a key that is kept while its instance is registered.
type key struct {
	r          *Registry
	key, value string
}

// keep is that of keep.Holding.
func (k *key) keep(ctx context.Context, has func()) error {
	client, err := k.r.connected()
	if err != nil {
		return err
	}
	l, err := k.r.leased(ctx, client)
	if err != nil {
		return err
	}
	for {
		if err := k.put(ctx, client, l); err != nil {
			return err
		}
		has()
		t := time.NewTimer(k.r.refresh - time.Duration(rand.Int64N(int64(k.r.refresh/5)+1)))
		select {
		case <-t.C: // somebody may have removed it
		case <-l.ended:
			t.Stop()
			return errLeaseLost
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// put writes the key, unless it is there with the lease.
func (k *key) put(ctx context.Context, client *clientv3.Client, l *lease) error {
	ctx, cancel := request(ctx)
	defer cancel()
	ours := clientv3.Compare(clientv3.LeaseValue(k.key), "=", l.id)
	_, err := client.Txn(ctx).If(ours).Else(clientv3.OpPut(k.key, k.value, clientv3.WithLease(l.id))).Commit()
	if err != nil {
		return fmt.Errorf("etcd: writing %s: %w", k.key, err)
	}
	return nil
}

// remove is that of keep.Holding.
func (k *key) remove(ctx context.Context) error {
	client, err := k.r.connected()
	if err != nil {
		return err
	}
	ctx, cancel := request(ctx)
	defer cancel()
	if _, err := client.Delete(ctx, k.key); err != nil {
		return fmt.Errorf("etcd: removing %s: %w", k.key, err)
	}
	return nil
}
