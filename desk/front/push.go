package front

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	consolePath  = "/console"
	workerPath   = "/console/worker.js"
	workerPolicy = "default-src 'none'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"
)

// pushRoutes adds the console as a page that can be installed, and what browsers tell of their push subscriptions.
func (f *Front) pushRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+consolePath, f.serveConsole)
	mux.HandleFunc("GET "+workerPath, f.serveWorker)
	mux.HandleFunc("POST /api/v1/agent/push", f.staff(perm.Serve, f.subscribe))
	mux.HandleFunc("POST /api/v1/agent/push/drop", f.staff(anyStaff, f.unsubscribe))
}

// serveConsole answers with the console, the only page that has a manifest and a service worker.
func (f *Front) serveConsole(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	policy := strings.Replace(h.Get("Content-Security-Policy"), "trusted-types 'none'", "trusted-types eddy-console", 1) // of the worker's address
	h.Set("Content-Security-Policy", "manifest-src 'self'; worker-src 'self'; "+policy)
	f.sendPage(w, r, "console.html")
}

// serveWorker answers with the service worker. It works for the console alone, and loads nothing but pictures.
func (f *Front) serveWorker(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Service-Worker-Allowed", consolePath)
	h.Set("Content-Security-Policy", workerPolicy)
	f.sendPage(w, r, "console-worker.js")
}

// subscribe keeps by what the browser of a login is called while no console is open.
func (f *Front) subscribe(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	var in struct {
		Endpoint string
		Keys     struct{ P256dh, Auth string }
		Locale   string
	}
	if !decode(w, r, &in) || !f.pushOn(w) {
		return
	}
	sub := store.PushSubscription{Login: s.Token, Endpoint: in.Endpoint, Locale: in.Locale}
	sub.Key, _ = base64.RawURLEncoding.DecodeString(strings.TrimRight(in.Keys.P256dh, "=")) // what is wrong is no key
	sub.Auth, _ = base64.RawURLEncoding.DecodeString(strings.TrimRight(in.Keys.Auth, "="))
	if text := f.wrongPush(&sub); text != "" {
		problem(w, http.StatusUnprocessableEntity, &proto.Error{Code: proto.CodeBadRequest, Text: text})
		return
	}
	err := f.store.SavePush(r.Context(), sub)
	switch {
	case errors.Is(err, store.ErrNotFound): // the login has ended meanwhile
		f.notLoggedIn(w, r)
	case err != nil:
		f.storeProblem(w, err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// wrongPush says what is wrong with a subscription, "" = nothing.
func (f *Front) wrongPush(s *store.PushSubscription) string {
	if invalid, ok := errors.AsType[store.Invalid](s.Check()); ok {
		fields := make([]string, len(invalid))
		for i, p := range invalid {
			fields[i] = p.Field
		}
		return fmt.Sprintf("A subscription has an endpoint of 1 to %d bytes, here %d, a key that is a point of P-256, here %d bytes, %d bytes of auth, here %d, and a language of the console. Wrong: %s.",
			store.MaxPushEndpoint, len(s.Endpoint), len(s.Key), store.PushAuth, len(s.Auth), strings.Join(fields, ", "))
	}
	if err := f.o.Push.Check(s.Endpoint); err != nil {
		return sentence(err, "safehttp: ")
	}
	return ""
}

// pushOn refuses what the operator has switched off. false means that the answer has been given.
func (f *Front) pushOn(w http.ResponseWriter) bool {
	on := f.o.Push.Key() != ""
	if !on {
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "Calls through push services are switched off."})
	}
	return on
}

// unsubscribe forgets the subscription of a login. One that is not there is forgotten already.
func (f *Front) unsubscribe(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	if err := f.store.DropPush(r.Context(), s.Token, ""); err != nil && !errors.Is(err, store.ErrNotFound) {
		f.storeProblem(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
