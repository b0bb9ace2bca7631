// Package api is the integration API of Desk: what programs with an API key may call, and what they are told. It knows
// the calls, their scopes and their answers. Package front finds the key of a request and bounds what a key may ask for.
package api

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

//go:embed openapi.json
var description []byte

// Description returns the OpenAPI file of the calls.
func Description() []byte { return description }

// Limits of one call.
const (
	MaxEvents     = 200       // events of one page
	maxPageBytes  = 256 << 10 // of their texts, unless one event has more
	defaultPage   = 50
	maxCursor     = 100 // bytes
	maxIdempotent = 128 // characters
)

// API serves the calls. Any goroutine may call its methods.
type API struct {
	Store  store.Store
	Hub    *hub.Hub
	Report func(ctx context.Context, q url.Values) (Report, error) // errors may be *proto.Error

	Draining <-chan struct{} // closed when calls that wait have to end
	Turns    chan struct{}   // holds one element for each read of what has happened; fewer than the connections for reads of staff
}

// Request is one call of a key that has the scope.
type Request struct {
	Key         store.APIKey
	ID          string     // in the path
	Query       url.Values // only names of Call.Query, each at most once
	Idempotency string     // the header Idempotency-Key
	Body        any        // pointer that Call.NewBody has returned

	// Read logs that the key reads something and waits for the commit.
	Read func(ctx context.Context, target string) error
	// Changes logs that the key changes something outside conversations and waits for the commit.
	Changes func(ctx context.Context, target string) error
	// Works returns nil while the key has not been revoked.
	Works func(ctx context.Context) error
}

// Call is one call of the API.
type Call struct {
	Pattern string // of http.ServeMux
	Scope   perm.KeyScope
	Query   []string     // names of the parameters
	Body    reflect.Type // nil = none
	Answer  reflect.Type
	Waits   time.Duration // may wait for something to happen, so long

	serve func(ctx context.Context, a *API, r *Request) (any, error)
}

// NewBody returns what the body of a request is decoded into, nil if the call has none.
func (c *Call) NewBody() any {
	if c.Body == nil {
		return nil
	}
	return reflect.New(c.Body).Interface()
}

// Unknown returns the name of a parameter that the call does not take, or not twice. "" means that there is none.
func (c *Call) Unknown(q url.Values) string {
	for name, values := range q {
		if len(values) > 1 || !slices.Contains(c.Query, name) {
			return strconv.QuoteToASCII(name[:min(len(name), 40)])
		}
	}
	return ""
}

// Serve runs the call and returns the JSON of the answer. Private data in it are masked. Errors that are no *proto.Error
// come from the store.
func (c *Call) Serve(ctx context.Context, a *API, r *Request) (json.RawMessage, error) {
	v, err := c.serve(ctx, a, r)
	if err != nil {
		return nil, err
	}
	object, err := json.Marshal(v)
	if err != nil || c.Scope == perm.KeyReports { // the names of a team and its numbers
		return object, err
	}
	return hub.Mask(object)
}

// Turn waits until what has happened may be read. release ends the turn.
func (a *API) Turn(ctx context.Context) (release func(), err error) {
	select {
	case a.Turns <- struct{}{}:
		return func() { <-a.Turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// calling describes a call by the function that serves it.
func calling[A any](pattern string, scope perm.KeyScope, serve func(*API, context.Context, *Request) (A, error), query ...string) Call {
	return Call{
		Pattern: pattern, Scope: scope, Query: query, Answer: reflect.TypeFor[A](),
		serve: func(ctx context.Context, a *API, r *Request) (any, error) { return serve(a, ctx, r) },
	}
}

// taking is calling with a body.
func taking[B, A any](pattern string, scope perm.KeyScope, serve func(*API, context.Context, *Request, *B) (A, error)) Call {
	c := calling(pattern, scope, func(a *API, ctx context.Context, r *Request) (A, error) { return serve(a, ctx, r, r.Body.(*B)) })
	c.Body = reflect.TypeFor[B]()
	return c
}

// waiting is a call that may wait.
func waiting(c Call) Call {
	c.Waits = MaxWait
	return c
}

// Calls returns every call.
func Calls() []Call {
	return []Call{
		calling("GET /api/v1/conversations", perm.KeyRead, (*API).conversations, "state", "from", "to", "cursor", "limit"),
		calling("GET /api/v1/conversations/{id}", perm.KeyRead, (*API).conversation),
		calling("GET /api/v1/conversations/{id}/events", perm.KeyRead, (*API).events, "after", "limit"),
		taking("POST /api/v1/conversations/{id}/messages", perm.KeySend, (*API).send),
		taking("POST /api/v1/conversations/{id}/tags", perm.KeyTags, (*API).tag),
		taking("POST /api/v1/conversations", perm.KeyOpen, (*API).open),
		calling("GET /api/v1/contacts/{id}", perm.KeyContacts, (*API).contact),
		taking("POST /api/v1/contacts", perm.KeyWrite, (*API).save),
		taking("PATCH /api/v1/contacts/{id}", perm.KeyWrite, (*API).patch),
		waiting(calling("GET /api/v1/events", perm.KeyEvents, (*API).feed, "after", "limit", "wait")),
		calling("GET /api/v1/reports", perm.KeyReports, (*API).report, "by", "from", "to", "offset", "zone", "site", "group", "agent", "tag"),
	}
}
