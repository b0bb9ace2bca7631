package admin

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-eddy/eddy/desk/store"
)

// cannedList is the list of prepared replies that match the filter.
type cannedList struct {
	*lists
	Shown         []store.Canned
	Locale, Group string
	Filtered      bool
}

func (p *Pages) canned(q *request) {
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	query := q.r.URL.Query()
	page := cannedList{lists: all, Locale: query.Get("locale"), Group: query.Get("group")}
	page.Filtered = page.Locale != "" || page.Group != ""
	for _, c := range all.Canned {
		if (page.Locale == "" || c.Locale == "" || c.Locale == page.Locale) && (page.Group == "" || c.Group == "" || c.Group == page.Group) {
			page.Shown = append(page.Shown, c)
		}
	}
	q.render(http.StatusOK, "canned", page)
}

// cannedPage is the form of a prepared reply; ID is "" for a new one.
type cannedPage struct {
	*lists
	ID, Short string
}

func (p *Pages) newCanned(q *request) { q.cannedForm(http.StatusOK, store.Canned{}) }

func (q *request) cannedForm(status int, c store.Canned) {
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	q.render(status, "reply", cannedPage{all, c.ID, c.Short})
}

func (p *Pages) createCanned(q *request) {
	p.storeCanned(q, store.Canned{}, func(c *store.Canned) (err error) {
		*c, err = p.o.Store.CreateCanned(q.ctx(), *c)
		return err
	})
}

func (p *Pages) saveCanned(q *request) {
	done, ok := q.alone()
	if !ok {
		return
	}
	defer done()
	before, ok := q.reply()
	if !ok {
		return
	}
	q.outdated(cannedShown(before))
	p.storeCanned(q, before, func(c *store.Canned) error { return p.o.Store.UpdateCanned(q.ctx(), *c) })
}

// storeCanned makes or changes a prepared reply.
func (p *Pages) storeCanned(q *request, before store.Canned, write func(*store.Canned) error) {
	c := store.Canned{ID: before.ID, Short: trimSlash(q.line("short")), Locale: q.Value("locale"), Title: q.line("title"), Body: q.block("body"), Group: q.Value("group")}
	var err error
	if q.Failed() == 0 {
		err = write(&c)
	}
	if errors.Is(err, store.ErrExists) {
		q.wrong("short", q.T("canned.taken"))
	} else if err != nil && !q.failed(err) {
		return
	}
	if q.Failed() > 0 {
		q.cannedForm(q.status(), before)
		return
	}
	action, done := store.AuditUpdate, "saved"
	if before.ID == "" {
		action, done = store.AuditCreate, "created"
	}
	if q.audit(action, "canned "+c.ID, "/"+c.Short) {
		q.see("/admin/canned/"+c.ID, done)
	}
}

// trimSlash lets people enter the slash that they will type.
func trimSlash(s string) string {
	if len(s) > 1 && s[0] == '/' {
		return s[1:]
	}
	return s
}

func (q *request) reply() (store.Canned, bool) {
	all, err := q.p.o.Store.Cold().CannedReplies(q.ctx())
	if err == nil {
		i := slices.IndexFunc(all, func(c store.Canned) bool { return c.ID == q.r.PathValue("id") })
		if i >= 0 {
			return all[i], true
		}
		err = store.ErrNotFound
	}
	q.failed(err)
	return store.Canned{}, false
}

// cannedShown returns the fields of a prepared reply.
func cannedShown(c store.Canned) url.Values {
	return url.Values{"short": {c.Short}, "locale": {c.Locale}, "title": {c.Title}, "body": {c.Body}, "group": {c.Group}}
}

func (p *Pages) editCanned(q *request) {
	c, ok := q.reply()
	if !ok {
		return
	}
	q.show(cannedShown(c))
	q.cannedForm(http.StatusOK, c)
}

func (p *Pages) deleteCanned(q *request) {
	c, ok := q.reply()
	if !ok {
		return
	}
	if err := p.o.Store.DeleteCanned(q.ctx(), c.ID); err != nil {
		q.failed(err)
		return
	}
	if q.audit(store.AuditDelete, "canned "+c.ID, "/"+c.Short) {
		q.see("/admin/canned", "deleted")
	}
}
