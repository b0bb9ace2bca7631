package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/go-eddy/eddy/rpc/discovery"
)

// DefaultNamespace is Options.Root of a center if the options do not say. It is Dubbo's.
const DefaultNamespace = "dubbo"

// Center is a discovery.Center in etcd, where Dubbo keeps configuration. Make one with NewCenter. Any goroutine may call its methods.
type Center struct{ r *Registry }

var _ discovery.Center = (*Center)(nil)

// NewCenter returns a center, which connects when it is first asked. Options.Root is its namespace, and Options.TTL does not count. The error names the
// option that makes no sense.
func NewCenter(o Options) (*Center, error) {
	o.Root = cmp.Or(o.Root, DefaultNamespace)
	r, err := New(o)
	if err != nil {
		return nil, err
	}
	return &Center{r}, nil
}

// Text implements discovery.Center. What etcd refuses is an error at once.
func (c *Center) Text(ctx context.Context, group, key string) (text string, err error) {
	for _, part := range []string{group, key} {
		if part == "" || strings.ContainsAny(part, "/\x00") {
			return "", fmt.Errorf("etcd: %q is no name of a text: it must be a name without /", part)
		}
	}
	path := "/" + c.r.o.Root + "/config/" + group + "/" + key
	err = c.r.keep.Ask(ctx, func(ctx context.Context) (bool, error) {
		var err error
		if text, err = c.get(ctx, path); err == nil {
			return false, nil
		}
		refused, ok := errors.AsType[rpctypes.EtcdError](err)
		return ok && refused.Code() != codes.Unavailable && refused.Code() != codes.DeadlineExceeded, fmt.Errorf("etcd: %s: %w", path, err)
	})
	return text, err
}

// get returns the value of a key, "" if there is none.
func (c *Center) get(ctx context.Context, path string) (string, error) {
	client, err := c.r.connected()
	if err != nil {
		return "", err
	}
	ctx, cancel := request(ctx)
	defer cancel()
	answer, err := client.Get(ctx, path)
	if err != nil || len(answer.Kvs) == 0 {
		return "", err
	}
	return string(answer.Kvs[0].Value), nil
}

// Close implements discovery.Center.
func (c *Center) Close() error { return c.r.Close() }
