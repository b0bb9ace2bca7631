package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// maxKeys bounds the keys of a service that are read, among which are those of other protocols.
const maxKeys = 4 * discovery.MaxInstances

// resolver is the discovery.Resolver of one service.
type resolver struct {
	r *Registry
	s discovery.Service
}

// Watch implements discovery.Resolver.
func (v *resolver) Watch(ctx context.Context, tell func([]discovery.Instance)) error {
	if err := checkService(v.s); err != nil {
		return err
	}
	return v.r.keep.Watch(ctx, func(ctx context.Context) error {
		client, err := v.r.connected()
		if err != nil {
			return err
		}
		w := &watch{
			client: client, prefix: v.r.prefix(v.s), service: v.s,
			teller: keep.Teller{Service: v.s, Log: v.r.keep.Log(), To: tell},
		}
		for {
			if err := w.read(ctx); err != nil {
				return err
			}
			if err := w.follow(ctx, v.r.refresh); err != nil {
				return err
			}
			if err := keep.Pause(ctx, keep.Settle); err != nil {
				return err
			}
		}
	})
}

// watch is one run of a resolver. One goroutine uses it.
type watch struct {
	client   *clientv3.Client
	prefix   string
	service  discovery.Service
	teller   keep.Teller
	entries  map[string]keep.Entry
	revision int64 // of entries
}

// read reads all keys and tells them.
func (w *watch) read(ctx context.Context) error {
	ctx, cancel := request(ctx)
	defer cancel()
	answer, err := w.client.Get(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithLimit(maxKeys))
	if err != nil {
		return fmt.Errorf("etcd: reading %s: %w", w.prefix, err)
	}
	w.entries = make(map[string]keep.Entry, len(answer.Kvs))
	for _, kv := range answer.Kvs {
		w.put(string(kv.Key), kv.Value)
	}
	w.revision = answer.Header.Revision
	return w.tell()
}

func (w *watch) put(key string, value []byte) {
	w.entries[key] = entryOf(w.service, strings.TrimPrefix(key, w.prefix), value)
}

func (w *watch) tell() error {
	list := make([]keep.Entry, 0, len(w.entries))
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		list = append(list, w.entries[key])
	}
	return w.teller.Tell(list)
}

// follow tells changes, which it collects for a moment. It returns nil when all must be read again: after the time refresh, and when etcd
// does not have all changes any more.
func (w *watch) follow(ctx context.Context, refresh time.Duration) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	changes := w.client.Watch(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithRev(w.revision+1))
	again := time.NewTimer(refresh - time.Duration(rand.Int64N(int64(refresh/5)+1)))
	defer again.Stop()
	settled := time.NewTimer(keep.Settle)
	defer settled.Stop()
	settled.Stop()
	waits := false
	for {
		select {
		case <-again.C:
			return nil
		case <-settled.C:
			if waits = false; len(w.entries) > maxKeys {
				return nil
			}
			if err := w.tell(); err != nil {
				return err
			}
		case c, ok := <-changes:
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case !ok:
				return errors.New("etcd: the watch has ended")
			case c.CompactRevision != 0:
				return nil
			case c.Err() != nil:
				return fmt.Errorf("etcd: watching %s: %w", w.prefix, c.Err())
			}
			w.apply(c.Events)
			if !waits {
				waits = true
				settled.Reset(keep.Settle)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *watch) apply(events []*clientv3.Event) {
	for _, e := range events {
		if e.Type == clientv3.EventTypeDelete {
			delete(w.entries, string(e.Kv.Key))
		} else {
			w.put(string(e.Kv.Key), e.Kv.Value)
		}
	}
}
