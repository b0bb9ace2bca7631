package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/admin"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/http1"
)

// contentPolicy allows what the pages need: their own scripts and styles, and connections to this server.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors 'none'"

func (f *Front) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", f.servePage("index.html"))
	mux.HandleFunc("GET /chat/{site}", f.servePage("customer.html"))
	mux.HandleFunc("GET /widget/{site}", f.limited(f.places.widget, f.serveWidget))
	mux.HandleFunc("GET /widget/{site}/look.js", f.limited(f.places.widget, f.widgetLook))
	mux.HandleFunc("GET /widget/{site}/logo/{hash}", f.limited(f.places.widget, f.logo))
	mux.HandleFunc("GET /widget.js", f.servePage("widget.js"))
	mux.HandleFunc("GET /shop", f.serveShop)
	mux.HandleFunc("GET /assets/{path...}", f.serveAsset)
	mux.HandleFunc("POST /api/v1/widget/session", f.limited(f.places.widget, f.widgetSession))
	mux.HandleFunc("POST /api/v1/agent/login", f.limited(f.places.staff, f.login))
	mux.HandleFunc("POST /api/v1/agent/logout", f.limited(f.places.staff, f.logout))
	mux.HandleFunc("GET /api/v1/agent/me", f.staff(beforeCode, f.me))
	mux.HandleFunc("POST /api/v1/agent/ticket", f.staff(anyStaff, f.ticket))
	mux.HandleFunc("POST /api/v1/agent/password", f.staff(anyStaff, f.password))
	mux.HandleFunc("GET /api/v1/agent/sessions", f.staff(anyStaff, f.sessions))
	mux.HandleFunc("POST /api/v1/agent/sessions/revoke", f.staff(anyStaff, f.revoke))
	mux.HandleFunc("GET /api/v1/agent/filters", f.staff(anyStaff, f.filters))
	mux.HandleFunc("POST /api/v1/agent/filters", f.staff(anyStaff, f.saveFilter))
	mux.HandleFunc("POST /api/v1/agent/filters/drop", f.staff(anyStaff, f.dropFilter))
	mux.HandleFunc("POST /api/v1/bot/turns/{id}", f.limited(f.places.bots, f.botAnswer))
	f.pushRoutes(mux)
	f.factorRoutes(mux)
	f.invitationRoutes(mux)
	f.ssoRoutes(mux)
	f.resetRoutes(mux)
	f.transcriptRoutes(mux)
	f.manageRoutes(mux)
	f.wallRoutes(mux)
	f.personRoutes(mux)
	f.programRoutes(mux)
	mux.HandleFunc("POST "+widgetUploads, f.limited(f.places.uploads, f.widgetUpload))
	mux.HandleFunc("POST "+agentUploads, f.staffIn(f.places.staffUploads, f.o.Uploads.MaxTime+f.within(requestTimeout), perm.Serve, f.agentUpload))
	mux.HandleFunc("GET /files/{id}", f.file)
	mux.HandleFunc("GET /ws", f.socket)
	f.pollRoutes(mux)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", f.readyz)

	return f.secured(f.bounded(f.guarded(f.routed(mux))))
}

// widgetUploads and agentUploads are the routes whose bodies are files.
const (
	widgetUploads = "/api/v1/widget/uploads"
	agentUploads  = "/api/v1/agent/uploads"
)

// route makes requests begin only after their body has arrived, except for uploads. A client that stalls thus holds no
// place. A form that announces far too much begins at once, because its page refuses it without reading it.
func (f *Front) route(r *http.Request) http1.Route {
	if r.URL.Path == widgetUploads || r.URL.Path == agentUploads || !takesBodies(r.URL.Path) {
		return http1.Route{}
	}
	most := mostBody(r.URL.Path) + anyBody
	if r.ContentLength > int64(most) && strings.HasPrefix(r.URL.Path, "/admin/") {
		return http1.Route{}
	}
	return http1.Route{Await: most, Within: f.within(bodyTimeout)} // a body a little too long gets the page's own answer
}

// mostBody bounds the body of a request that is no upload.
func mostBody(path string) int {
	if path == pollAPI {
		return maxPollBody
	}
	return max(anyBody, int(admin.MostForm(path)))
}

// takesBodies reports whether path has requests with bodies. Other requests with bodies are refused by their heads.
func takesBodies(path string) bool {
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/admin/")
}

// bounded keeps the bodies of requests that are no uploads small, and quick to arrive.
func (f *Front) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && r.URL.Path != widgetUploads && r.URL.Path != agentUploads {
			r.Body = http.MaxBytesReader(w, r.Body, int64(mostBody(r.URL.Path)))
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(f.within(bodyTimeout))) // a server without deadlines has its own
		}
		next.ServeHTTP(w, r)
	})
}

// secured adds the headers that every answer carries.
func (f *Front) secured(next http.Handler) http.Handler {
	onlyHTTPS := ""
	if f.o.HSTS > 0 {
		onlyHTTPS = fmt.Sprintf("max-age=%d", int64(f.o.HSTS/time.Second))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		if onlyHTTPS != "" {
			h.Set("Strict-Transport-Security", onlyHTTPS)
		}
		next.ServeHTTP(w, r)
	})
}

// limited keeps one kind of request from taking all workers of the HTTP pool. Requests beyond its places are refused at
// once. Pages and upgrades therefore go on, whatever the database does.
func (f *Front) limited(places chan struct{}, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next(w, r)
		default:
			f.Counters.RequestsBusy.Add(1)
			problem(w, http.StatusServiceUnavailable, proto.Later(proto.CodeBusy, "The server is busy. Try again in a moment.", time.Second))
		}
	}
}

func (f *Front) readyz(w http.ResponseWriter, r *http.Request) {
	if f.draining.Load() {
		plain(w, http.StatusServiceUnavailable, "draining")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.within(readyTimeout))
	defer cancel()
	if err := f.Ready(ctx); err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	said := "ready"
	if f.sso != nil && f.sso.provider.Ready() != nil {
		said += "\nsingle sign-on does not work: the provider has not answered" // passwords do, so this is no reason to send nobody here
	}
	if hint, _ := f.o.Others(); hint != "" {
		said += "\n" + hint
	}
	if err := f.o.Files.Fault(); err != nil {
		said += "\n" + err.Error() // chats go on without files
	}
	plain(w, http.StatusOK, said)
}

// Ready returns nil when the database has taken the last write and answers reads, and what other servers commit is known. A few at a time try a read of their
// own; the others say only what the store says.
func (f *Front) Ready(ctx context.Context) error {
	if err := f.store.Ready(); err != nil {
		return err
	}
	if _, err := f.o.Others(); err != nil {
		return err
	}
	select {
	case f.places.ready <- struct{}{}:
		defer func() { <-f.places.ready }()
	default:
		return nil
	}
	if _, err := f.store.Hot().SiteByKey(ctx, "demo"); err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("desk: a read failed: %w", err)
	}
	return nil
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}

func answer(w http.ResponseWriter, v any) { answerStatus(w, http.StatusOK, v) }

func answerStatus(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a failing connection closes itself
}

// problem sends an error object.
func problem(w http.ResponseWriter, status int, e *proto.Error) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if e.RetryMS > 0 {
		h.Set("Retry-After", strconv.FormatInt((e.RetryMS+999)/1000, 10))
	}
	w.WriteHeader(status)
	_, _ = w.Write(problemBody(status, e)) // a failing connection closes itself
}

func problemBody(status int, e *proto.Error) []byte {
	text, _ := json.Marshal(struct { // always possible
		Status int `json:"status"`
		*proto.Error
	}{status, e})
	return append(text, '\n')
}

// storeProblem answers for a failed store call. A client that has gone away is no failure.
func (f *Front) storeProblem(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrStopped):
	case errors.Is(err, context.Canceled):
		f.o.Logger.Debug("desk: a client went away before its answer", "err", err)
	default:
		f.o.Logger.Error("desk: request failed", "err", err)
	}
	problem(w, http.StatusServiceUnavailable, proto.Later(proto.CodeUnavailable, "The server cannot do this now. Try again in a moment.", time.Second))
}

// decode reads a small JSON body. false means that the answer has been given.
func decode(w http.ResponseWriter, r *http.Request, v any) bool { return decodeUpTo(w, r, v, maxBody) }

// decodeUpTo is decode for bodies of at most limit bytes.
func decodeUpTo(w http.ResponseWriter, r *http.Request, v any, limit int64) bool {
	body, ok := jsonBody(w, r, limit)
	if ok && json.Unmarshal(body, v) != nil {
		notJSON(w)
		return false
	}
	return ok
}

// jsonBody reads a body of at most limit bytes that says it is JSON. false means that the answer has been given.
func jsonBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, bool) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		problem(w, http.StatusUnsupportedMediaType, &proto.Error{Code: proto.CodeBadRequest, Text: "Content-Type must be application/json."})
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		problem(w, http.StatusRequestEntityTooLarge, &proto.Error{Code: proto.CodeTooLarge, Text: fmt.Sprintf("The body is over %d KiB.", limit>>10)})
	case err != nil:
		notJSON(w)
	}
	return body, err == nil
}

func notJSON(w http.ResponseWriter) {
	problem(w, http.StatusBadRequest, &proto.Error{Code: proto.CodeBadRequest, Text: "The body is not the JSON this address expects."})
}
