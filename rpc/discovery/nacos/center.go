package nacos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-eddy/eddy/rpc/discovery"
)

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
	err = c.r.keep.Ask(ctx, func(ctx context.Context) (bool, error) {
		err := c.r.call(ctx, http.MethodGet, "/v1/cs/configs", form, &text)
		refused, ok := errors.AsType[*refusal](err)
		if ok && refused.status == http.StatusNotFound {
			return false, nil
		}
		return ok && refused.status < 500, err
	})
	return text, err
}

// Close implements discovery.Center.
func (c *Center) Close() error { return c.r.Close() }
