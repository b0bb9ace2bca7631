package admin

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/mail"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

//go:embed templates
var files embed.FS

// Options are what the pages need. All of them but Mail are required.
type Options struct {
	Store  store.Store
	Hash   func(ctx context.Context, password string) (string, error) // of a new password; may answer auth.ErrBusy
	Audit  func(r *http.Request, who store.Actor, action, target, detail string) error
	Asset  func(name string) string // address of an embedded file
	Logo   func(*store.Site) string // address of a site's logo
	People People
	Mail   *mail.Post // nil = no mail is sent
	HTTPS  bool       // browsers reach the server over https
	Public string     // address by which customers reach the server, "" = not known
	Logger *slog.Logger
	Now    func() time.Time
}

// Pages serves the pages. Any goroutine may call its handlers; they block.
type Pages struct {
	o    Options
	tmpl map[string]*template.Template
	once *onceShown

	saving chan struct{} // holds one element while a request compares and saves
}

// Route is one address with the permission it needs and its handler.
type Route struct {
	Pattern string
	Needs   perm.Permission
	Serve   func(w http.ResponseWriter, r *http.Request, s store.AgentSession)
}

// New prepares the pages.
func New(o Options) (*Pages, error) {
	p := &Pages{o: o, tmpl: make(map[string]*template.Template), once: newOnceShown(o.Now), saving: make(chan struct{}, 1)}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	for _, name := range names {
		base := path.Base(name)
		if base == "layout.html" {
			continue
		}
		t, err := template.New(base).ParseFS(files, "templates/layout.html", name)
		if err != nil {
			return nil, fmt.Errorf("admin: %w", err)
		}
		p.tmpl[strings.TrimSuffix(base, ".html")] = t
	}
	return p, nil
}

// Routes returns every route of the pages.
func (p *Pages) Routes() []Route {
	manage := func(pattern string, serve func(*request)) Route { return Route{pattern, perm.Manage, p.serve(serve)} }
	return slices.Concat(p.contactRoutes(), p.fieldRoutes(), []Route{
		manage("GET /admin", p.overview),
		manage("GET /admin/agents", p.agents), manage("GET /admin/agents/new", p.newAgent), manage("POST /admin/agents", p.createAgent),
		manage("GET /admin/agents/{id}", p.editAgent), manage("POST /admin/agents/{id}", p.saveAgent), manage("POST /admin/agents/{id}/password", p.resetPassword), manage("POST /admin/agents/{id}/factor", p.resetFactor), manage("POST /admin/agents/{id}/unlink", p.unlink),
		manage("GET /admin/groups", p.groups), manage("GET /admin/groups/new", p.newGroup), manage("POST /admin/groups", p.createGroup),
		manage("GET /admin/groups/{id}", p.editGroup), manage("POST /admin/groups/{id}", p.saveGroup), manage("POST /admin/groups/{id}/delete", p.deleteGroup),
		manage("GET /admin/sites", p.sites), manage("GET /admin/sites/new", p.newSite), manage("POST /admin/sites", p.createSite),
		manage("GET /admin/sites/{id}", p.editSite), manage("POST /admin/sites/{id}", p.saveSite), manage("POST /admin/sites/{id}/secret", p.changeSecret),
		manage("GET /admin/sites/{id}/rules", p.editRules), manage("POST /admin/sites/{id}/rules", p.saveRules),
		manage("GET /admin/canned", p.canned), manage("GET /admin/canned/new", p.newCanned), manage("POST /admin/canned", p.createCanned),
		manage("GET /admin/canned/{id}", p.editCanned), manage("POST /admin/canned/{id}", p.saveCanned), manage("POST /admin/canned/{id}/delete", p.deleteCanned),
		manage("GET /admin/bots", p.bots), manage("GET /admin/bots/new", p.newBot), manage("POST /admin/bots", p.createBot),
		manage("GET /admin/bots/{id}", p.editBot), manage("POST /admin/bots/{id}", p.saveBot), manage("POST /admin/bots/{id}/delete", p.deleteBot),
		manage("GET /admin/keys", p.keys), manage("GET /admin/keys/new", p.newKey), manage("POST /admin/keys", p.createKey), manage("POST /admin/keys/{id}/revoke", p.revokeKey),
		manage("GET /admin/invitations", p.invitations), manage("GET /admin/invitations/new", p.newInvitation), manage("POST /admin/invitations", p.createInvitation), manage("POST /admin/invitations/{id}/revoke", p.revokeInvitation),
		manage("GET /admin/mail", p.mail), manage("POST /admin/mail/test", p.testMail), manage("POST /admin/mail/{id}/retry", p.retryMail), manage("POST /admin/mail/{id}/discard", p.discardMail),
		manage("GET /admin/webhooks", p.webhooks), manage("GET /admin/webhooks/new", p.newWebhook), manage("POST /admin/webhooks", p.createWebhook),
		manage("GET /admin/webhooks/{id}", p.editWebhook), manage("POST /admin/webhooks/{id}", p.saveWebhook), manage("POST /admin/webhooks/{id}/delete", p.deleteWebhook),
		manage("POST /admin/webhooks/{id}/secret", p.changeHookSecret), manage("POST /admin/webhooks/{id}/dead", p.changeDead),
		{"GET /admin/audit", perm.ViewAudit, p.serve(p.audit)},
		{"POST /admin/language", perm.ReadOthers, p.serve(p.language)},
	})
}

// request is one request on its way to one page.
type request struct {
	w  http.ResponseWriter
	r  *http.Request
	me store.AgentSession

	Lang string
	Nav  string // the entry of the menu that the page belongs to
	form
	tried *tried // what the tryout of a bot has answered
	Data  any
	Once  string // a text that is shown only once
	p     *Pages
}

// Longest forms in bytes. Rules of a bot may have bot.MaxConfigBytes, and a Chinese character takes three times as many
// bytes in a form. A site's form has room for a logo over its limit, so that its page can say how large the file is.
const (
	maxForm     = 60 << 10
	maxBotForm  = 512 << 10
	maxSiteForm = 512 << 10
)

// MostForm returns the bytes of the longest form that an address takes.
func MostForm(path string) int64 {
	switch {
	case strings.HasPrefix(path, "/admin/bots"):
		return maxBotForm
	case strings.HasPrefix(path, "/admin/sites"):
		return maxSiteForm
	}
	return maxForm
}

func (p *Pages) serve(next func(*request)) func(http.ResponseWriter, *http.Request, store.AgentSession) {
	return func(w http.ResponseWriter, r *http.Request, me store.AgentSession) {
		q := &request{w: w, r: r, me: me, p: p, Lang: language(r, me.Agent)}
		q.Nav, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/admin"), "/"), "/")
		if r.Method != http.MethodPost || q.read() {
			next(q)
		}
	}
}

// read reads the form that was sent. False means that the answer has been given.
func (q *request) read() bool {
	most := MostForm(q.r.URL.Path)
	err := error(&http.MaxBytesError{Limit: most})
	if q.r.ContentLength <= most { // else nothing is read: the client may stall
		q.r.Body = http.MaxBytesReader(q.w, q.r.Body, most)
		if err = q.r.ParseForm(); err == nil {
			err = q.r.ParseMultipartForm(most) // in memory
		}
	}
	const kib = 1 << 10
	came := (max(q.r.ContentLength, most+1) + kib - 1) / kib
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge) && q.Nav == "sites":
		q.fail(http.StatusRequestEntityTooLarge, "error.largeSite", came, most/kib, store.MaxLogoBytes/kib)
	case errors.As(err, &tooLarge):
		q.fail(http.StatusRequestEntityTooLarge, "error.large", came, most/kib)
	case err != nil && !errors.Is(err, http.ErrNotMultipart):
		q.fail(http.StatusBadRequest, "error.form")
	default:
		q.form.values = q.r.PostForm
		return true
	}
	return false
}

// ctx returns a context that ends with the request. The gate has given it a deadline.
func (q *request) ctx() context.Context { return q.r.Context() }

// T returns a text in the language of the page.
func (q *request) T(key string, args ...any) string { return text(q.Lang, key, args...) }

// Entered reports whether the page shows what was entered, and is not saved.
func (q *request) Entered() bool { return q.r.Method == http.MethodPost }

// Me returns the account that is logged in.
func (q *request) Me() store.AgentAccount { return q.me.Agent }

// Can reports whether the page's reader has a permission.
func (q *request) Can(p string) bool { return q.me.Agent.Role.Can(perm.Permission(p)) }

// Asset returns the address of an embedded file.
func (q *request) Asset(name string) string { return q.p.o.Asset(name) }

// Path returns the address of the page, for coming back to it.
func (q *request) Path() string { return q.r.URL.RequestURI() }

// Done says what has just been done.
func (q *request) Done() string {
	if what := q.r.URL.Query().Get("done"); slices.Contains([]string{"saved", "created", "deleted", "reset", "removed", "revoked", "factor", "withdrawn", "unlinked", "mail_queued", "mail_retry", "mail_discarded", "retried", "discarded"}, what) {
		return q.T("done." + what)
	}
	return ""
}

// Failed counts the fields that are wrong.
func (q *request) Failed() int { return len(q.errs) }

// Language returns the name of a language.
func (q *request) Language(tag string) string {
	if tag == "" {
		return q.T("language.any")
	}
	return languages()[tag]
}

// Time shows a time in Unix milliseconds. The zone is that of the server, because pages work without scripts.
func (q *request) Time(ms int64) string {
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05 MST")
}

// render sends a page.
func (q *request) render(status int, name string, data any) {
	q.Data = data
	var b bytes.Buffer
	if err := q.p.tmpl[name].ExecuteTemplate(&b, "layout", q); err != nil {
		q.p.o.Logger.Error("admin: page failed", "page", name, "err", err)
		http.Error(q.w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	h := q.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", q.Lang)
	h.Set("Cache-Control", "no-store")
	q.w.WriteHeader(status)
	_, _ = q.w.Write(b.Bytes()) // a failing connection closes itself
}

// fail sends a page that says what went wrong and what to do.
func (q *request) fail(status int, key string, args ...any) {
	q.render(status, "error", q.T(key, args...))
}

// failed answers for an error of the store. It returns true if the error is about a field, so that the form must be
// shown again.
func (q *request) failed(err error) (again bool) {
	var invalid store.Invalid
	switch {
	case errors.As(err, &invalid):
		for _, problem := range invalid {
			q.wrong(problem.Field, q.reason(problem))
		}
		return true
	case errors.Is(err, store.ErrNotFound):
		q.fail(http.StatusNotFound, "error.gone")
	case errors.Is(err, store.ErrLastAdmin):
		q.wrong("role", q.T("error.lastAdmin"))
		return true
	case errors.Is(err, auth.ErrBusy):
		q.fail(http.StatusServiceUnavailable, "error.busy")
	default:
		switch {
		case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		case errors.Is(err, context.Canceled):
			q.p.o.Logger.Debug("admin: a client went away before its page", "path", q.r.URL.Path, "err", err)
		default:
			q.p.o.Logger.Error("admin: request failed", "path", q.r.URL.Path, "err", err)
		}
		q.fail(http.StatusServiceUnavailable, "error.unavailable")
	}
	return false
}

func (q *request) reason(p store.Problem) string {
	var args []any
	if p.Limit != 0 {
		limit := p.Limit
		if unit := unitOf(p.Field); unit != 0 {
			limit /= unit.Milliseconds()
		}
		args = append(args, limit)
	}
	if p.Value != "" {
		args = append(args, p.Value)
	}
	return q.T("reason."+p.Reason, args...)
}

// unitOf returns the unit in which a time is entered, 0 for everything else.
func unitOf(field string) time.Duration {
	switch field {
	case "accept", "sticky_wait", "relax", "target":
		return time.Second
	case "idle_bot", "idle_wait", "idle_chat", "warn_for", "away_after", "away":
		return time.Minute
	case "reopen":
		return time.Hour
	case "expires":
		return day
	}
	return 0
}

// audit logs what was done. If the line cannot be written, the request fails, though the change stands.
func (q *request) audit(action, target, detail string) bool {
	if err := q.p.o.Audit(q.r, q.me.Agent.Actor(), action, target, detail); err != nil {
		q.failed(err)
		return false
	}
	return true
}

// see redirects to a page after a change.
func (q *request) see(page, done string) {
	q.w.Header().Set("Cache-Control", "no-store")
	if done != "" {
		page += "?done=" + url.QueryEscape(done)
	}
	http.Redirect(q.w, q.r, page, http.StatusSeeOther)
}

// overview is the first page. It shows what there is and what is missing.
func (p *Pages) overview(q *request) {
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	enabled := 0
	for _, a := range all.Agents {
		if !a.Disabled {
			enabled++
		}
	}
	q.render(http.StatusOK, "overview", struct {
		*lists
		Enabled int
	}{all, enabled})
}

// lists holds everything that the forms choose from.
type lists struct {
	Agents  []store.AgentAccount
	Sites   []store.Site
	Groups  []store.Group
	Members map[string][]string
	Canned  []store.Canned
}

func (q *request) lists() (*lists, error) {
	r, ctx, l := q.p.o.Store.Cold(), q.ctx(), &lists{}
	var errs [5]error
	l.Agents, errs[0] = r.Agents(ctx)
	l.Sites, errs[1] = r.Sites(ctx)
	l.Groups, errs[2] = r.Groups(ctx)
	l.Members, errs[3] = r.Members(ctx)
	l.Canned, errs[4] = r.CannedReplies(ctx)
	return l, errors.Join(errs[:]...)
}

// GroupName returns the name of a group, "" if there is none.
func (l *lists) GroupName(id string) string {
	for _, g := range l.Groups {
		if g.ID == id {
			return g.Name
		}
	}
	return ""
}

// GroupsOf returns the names of the groups of an agent.
func (l *lists) GroupsOf(agent string) string {
	var names []string
	for _, g := range l.Groups {
		if slices.Contains(l.Members[g.ID], agent) {
			names = append(names, g.Name)
		}
	}
	return strings.Join(names, ", ")
}

// names returns the names of everything in the lists, by id.
func (l *lists) names() map[string]string {
	names := make(map[string]string)
	for _, a := range l.Agents {
		names[a.ID] = a.Name
	}
	for _, s := range l.Sites {
		names[s.ID] = s.Name
	}
	for _, g := range l.Groups {
		names[g.ID] = g.Name
	}
	for _, c := range l.Canned {
		names[c.ID] = "/" + c.Short
	}
	return names
}
