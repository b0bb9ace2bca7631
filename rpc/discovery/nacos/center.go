package nacos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// centerPause is between two attempts to read a text that failed.
const centerPause = 200 * time.Millisecond

// Center is a discovery.Center in the configurations of Nacos: a text is the one whose Data ID is the key. Make one with NewCenter. Any goroutine may
// call its methods.
type Center struct{ r *Registry }

var _ discovery.Center = (*Center)(nil)

// NewCenter returns a center, which connects when it is first asked. Options.Group and Options.Poll do not count. The error names the option that makes
// no sense.
func NewCenter(o Options) (*Center, error) {
	r, err := New(o)
	if err != nil {
		return nil, err
	}
	return &Center{r}, nil
}

// Text implements discovery.Center. What Nacos refuses is an error at once.
func (c *Center) Text(ctx context.Context, group, key string) (text string, err error) {
	for _, part := range []string{group, key} {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return "", fmt.Errorf("nacos: %q is no name of a text: it must be a name without spaces and control characters", part)
		}
	}
	form := url.Values{"dataId": {key}, "group": {group}}
	if c.r.o.Namespace != "" {
		form.Set("tenant", c.r.o.Namespace)
	}
	var why error
	err = c.r.keep.Watch(ctx, func(ctx context.Context) error {
		for {
			err := c.r.call(ctx, http.MethodGet, "/v1/cs/configs", form, &text)
			refused, isRefusal := errors.AsType[*refusal](err)
			switch {
			case err == nil:
				return nil
			case isRefusal && refused.status == http.StatusNotFound:
				return nil
			case isRefusal && refused.status < 500:
				return err
			case ctx.Err() == nil:
				why = err
			}
			if err := keep.Pause(ctx, centerPause); err != nil {
				return err
			}
		}
	})
	if err != nil && err == ctx.Err() && why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return text, err
}

// Close implements discovery.Center.
func (c *Center) Close() error { return c.r.Close() }
