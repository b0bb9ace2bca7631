package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/api"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/trace"
)

const (
	programRequests = 4   // calls of programs at once, fewer than the connections for reads of staff
	programReports  = 1   // reports of programs at once, fewer than the connections for reports
	programTurns    = 2   // reads of events at once; with programRequests fewer than the connections for reads of staff
	programWaits    = 16  // calls of programs that wait for events at once
	keyWaits        = 4   // of one key
	keyRate         = 10  // calls of one key a second
	keyBurst        = 50  // calls of one key at once
	guessRate       = 0.1 // wrong keys of one address a second
	guessBurst      = 20  // wrong keys of one address at once
	readAgain       = 10 * time.Minute
	maxAPIBody      = 64 << 10
)

// programs is what the calls of programs need.
type programs struct {
	api     api.API
	calls   *auth.Buckets // by key
	guesses *auth.Buckets // wrong keys by network
	reads   *auth.Buckets // lines in the audit log about what a key reads, by key and object
	places  chan struct{}
	reports chan struct{}
	waits   chan struct{}
	waiting *auth.Held    // calls that wait by key
	drain   chan struct{} // closed when they have to end
}

func (f *Front) newPrograms() programs {
	drain := make(chan struct{})
	return programs{
		api:     api.API{Store: f.store, Hub: f.hub, Report: f.readReport, Draining: drain, Turns: make(chan struct{}, programTurns)},
		calls:   f.o.Shared.Count("calls of a key", auth.NewBuckets(keyRate, keyBurst, maxLimited)),
		guesses: f.o.Shared.Count("wrong keys", auth.NewBuckets(guessRate, guessBurst, maxLimited)),
		reads:   auth.NewBuckets(1/readAgain.Seconds(), 1, maxLimited),
		places:  make(chan struct{}, programRequests),
		reports: make(chan struct{}, programReports),
		waits:   make(chan struct{}, programWaits),
		waiting: auth.NewHeld(),
		drain:   drain,
	}
}

// API returns the integration API.
func (f *Front) API() *api.API { return &f.programs.api }

// Waiting returns how many calls are counted as waiting for events now.
func (f *Front) Waiting() int { return f.programs.waiting.All() }

// programRoutes adds the calls of programs and their description.
func (f *Front) programRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) { answer(w, json.RawMessage(api.Description())) })
	for _, call := range api.Calls() {
		mux.HandleFunc(call.Pattern, f.program(&call))
	}
}

// program is the one gate in front of every call of programs. It takes a place of programs, finds the key, and checks
// its rate, its scope and the shape of the request.
func (f *Front) program(c *api.Call) http.HandlerFunc {
	places, limit := f.programs.places, f.within(requestTimeout)
	switch {
	case c.Scope == perm.KeyReports:
		places, limit = f.programs.reports, f.within(reportTimeout)
	case c.Waits > 0:
		places, limit = f.programs.waits, limit+c.Waits
	}
	return f.limited(places, f.traced(c, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		key, ok := f.keyOf(ctx, w, r)
		if !ok {
			return
		}
		if wait := f.programs.calls.Take(key.ID, f.o.Now()); wait > 0 {
			tooFast(w, fmt.Sprintf("This key may make %d calls a second, and %d at once.", keyRate, keyBurst), wait)
			return
		}
		if !f.may(w, r, &key, c.Scope) {
			return
		}
		in := f.requestOf(c, r, key)
		if name := c.Unknown(in.Query); name != "" {
			problem(w, http.StatusBadRequest, &proto.Error{Code: proto.CodeBadRequest, Text: "The parameter " + name + " is unknown here, or given twice."})
			return
		}
		if in.Body != nil && !decodeUpTo(w, r, in.Body, maxAPIBody) {
			return
		}
		if b, ok := in.Body.(api.Scoped); ok && b.Scope() != "" && !f.may(w, r, &key, b.Scope()) {
			return
		}
		leave := func() {}
		if c.Waits > 0 {
			if leave, ok = f.programs.waiting.Enter(key.ID, keyWaits, f.o.Now()); !ok {
				tooFast(w, fmt.Sprintf("This key has %d calls that wait for events, which is the limit.", keyWaits), time.Second)
				return
			}
		}
		sampled := trace.FromContext(ctx)
		sampled.Enter(trace.Handler, "api")
		object, err := func() (any, error) {
			defer leave() // before the answer: whoever has it may call again at once
			return c.Serve(ctx, &f.programs.api, in)
		}()
		sampled.Enter(trace.Hop, "")
		if err != nil {
			sampled.Fail(failureOf(err))
			f.callFailed(w, err)
			return
		}
		answer(w, object)
	}))
}

// traced records the calls that are sampled. A call that waits for events is not recorded: it would be among the slowest, and it
// causes nothing.
func (f *Front) traced(c *api.Call, serve http.HandlerFunc) http.HandlerFunc {
	rec := f.o.Trace
	if rec == nil || c.Waits > 0 {
		return serve
	}
	return func(w http.ResponseWriter, r *http.Request) {
		parent := rec.Receive(f.o.TrustTrace, trace.FieldsOf(r.Header))
		if !rec.Sample(&parent) {
			rec.Unsampled(trace.Parent{}) // counts it
			serve(w, r)
			return
		}
		call := rec.Begin(parent, trace.About{Protocol: "desk", Name: c.Pattern})
		defer call.End()
		serve(w, r.WithContext(call.Within(r.Context())))
	}
}

// may reports whether a key has a scope. false means that the answer has been given.
func (f *Front) may(w http.ResponseWriter, r *http.Request, key *store.APIKey, scope perm.KeyScope) bool {
	if key.Can(scope) {
		return true
	}
	f.logDenied(r, key.Actor(), "needs scope "+string(scope))
	w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+string(scope)+`"`)
	problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: `The key lacks the scope "` + string(scope) + `".`})
	return false
}

// requestOf returns a request of a key with what its call may ask for. The body is still to be read.
func (f *Front) requestOf(c *api.Call, r *http.Request, key store.APIKey) *api.Request {
	return &api.Request{
		Key: key, ID: r.PathValue("id"), Query: r.URL.Query(), Idempotency: r.Header.Get("Idempotency-Key"), Body: c.NewBody(), Read: f.readBy(r, key),
		Changes: func(ctx context.Context, target string) error {
			return f.audit(ctx, key.Actor(), store.AuditUpdate, target, "by API key "+key.Prefix, f.address(r))
		},
		Works: func(ctx context.Context) error {
			_, err := f.store.Cold().APIKey(ctx, auth.HashToken(bearer(r)))
			if errors.Is(err, store.ErrNotFound) {
				return noKey()
			}
			return err
		},
	}
}

// bearer returns the secret of a request, "" if there is none.
func bearer(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return secret
}

func noKey() *proto.Error {
	return &proto.Error{Code: proto.CodeUnauthorized, Text: "The header Authorization: Bearer needs an API key that works."}
}

// tooFast refuses what is over a rate.
func tooFast(w http.ResponseWriter, text string, wait time.Duration) {
	problem(w, http.StatusTooManyRequests, proto.Later(proto.CodeRateLimited, text, wait))
}

// keyOf returns the key of a request. false means that there is none that works and the answer has been given. A wrong
// key counts for its address, and keys of an address with too many are not looked up.
func (f *Front) keyOf(ctx context.Context, w http.ResponseWriter, r *http.Request) (store.APIKey, bool) {
	now, from := f.o.Now(), network(f.address(r))
	if from != "" {
		if wait := f.programs.guesses.Take(from, now); wait > 0 {
			tooFast(w, "Too many wrong keys from your address. Wait a moment.", wait)
			return store.APIKey{}, false
		}
	}
	secret := bearer(r)
	key, err := store.APIKey{}, store.ErrNotFound
	if auth.LooksLikeKey(secret) {
		key, err = f.store.Cold().APIKey(ctx, auth.HashToken(secret))
	}
	if from != "" && !errors.Is(err, store.ErrNotFound) {
		f.programs.guesses.Return(from)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		w.Header().Set("WWW-Authenticate", "Bearer")
		problem(w, http.StatusUnauthorized, noKey())
		return key, false
	case err != nil:
		f.storeProblem(w, err)
		return key, false
	}
	if now.Sub(time.UnixMilli(key.Used)) > touchEvery {
		if err := f.store.TouchAPIKey(ctx, key.ID); err != nil {
			f.o.Logger.Warn("desk: the last use of an API key could not be stored", "key", key.ID, "err", err)
		}
	}
	return key, true
}

// readBy returns what logs that a key reads something. A program that reads on in the same place is logged once in
// readAgain.
func (f *Front) readBy(r *http.Request, key store.APIKey) func(context.Context, string) error {
	return func(ctx context.Context, target string) error {
		what := key.ID + " " + target
		if !f.programs.reads.Allow(what, f.o.Now()) {
			return nil
		}
		err := f.audit(ctx, key.Actor(), store.AuditRead, target, "by API key "+key.Prefix, f.address(r))
		if err != nil {
			f.programs.reads.Return(what)
		}
		return err
	}
}

// failureOf returns what a trace says of an error. It has no words of the client.
func failureOf(err error) error {
	if e, ok := errors.AsType[*proto.Error](err); ok {
		return errors.New(string(e.Code))
	}
	return err
}
