package admin

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/mask"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// People does what takes effect in running sessions, too. Methods block.
type People interface {
	Block(ctx context.Context, contact string, blocked bool, by store.Actor, reason string) (store.Contact, error)
	Erase(ctx context.Context, contact string, by store.Actor) error
	PatchContact(ctx context.Context, p store.ContactPatch) (store.Contact, error)
}

const (
	contactRows  = 50
	contactChats = 20
)

// contactRoutes returns the routes of the customers. Staff that may read the chats of others may see all customers.
func (p *Pages) contactRoutes() []Route {
	return []Route{
		{"GET /admin/contacts", perm.ReadOthers, p.serve(p.contacts)}, {"GET /admin/contacts/{id}", perm.ReadOthers, p.serve(p.contact)},
		{"POST /admin/contacts/{id}", perm.Whisper, p.serve(p.noteContact)}, {"POST /admin/contacts/{id}/fields", perm.Whisper, p.serve(p.saveOwnValues)},
		{"POST /admin/contacts/{id}/block", perm.Block, p.serve(p.blockContact)},
		{"POST /admin/contacts/{id}/erase", perm.Personal, p.serve(p.eraseContact)}, {"POST /admin/contacts/{id}/merge", perm.Personal, p.serve(p.mergeContact)},
	}
}

// Private returns a text about a customer as the reader of the page may see it.
func (q *request) Private(text string) string {
	if q.Can(string(perm.Private)) {
		return text
	}
	return mask.Text(text)
}

// contactList is a page of customers.
type contactList struct {
	*lists
	Rows  []store.Contact
	Own   []store.OwnField // that the reader may see
	Older string           // address of the next page, "" = there is none
	First bool
}

// SiteName returns the name of a site.
func (l *lists) SiteName(id string) string { return l.names()[id] }

// Email returns what a customer gives as an address of mail, "" if nothing does.
func (contactList) Email(c store.Contact) string { return c.Attributes["email"] }

func (p *Pages) contacts(q *request) {
	query := q.r.URL.Query()
	q.form.values = query
	ask := store.ContactQuery{Words: q.line("q"), Site: q.line("site"), Blocked: q.Value("blocked") != "", Cursor: query.Get("after"), Limit: contactRows}
	if !q.Can(string(perm.Private)) {
		ask.Seen = mask.Text
	}
	page := contactList{First: ask.Cursor == ""}
	var next string
	var err error
	if page.Own, err = q.fieldsShown(); err == nil {
		page.lists, err = q.lists()
	}
	if err == nil && !q.fieldFilter(page.Own, &ask) {
		q.fail(http.StatusBadRequest, "error.form")
		return
	}
	if err == nil {
		page.Rows, next, err = p.o.Store.Cold().Contacts(q.ctx(), ask)
	}
	switch {
	case errors.Is(err, store.ErrCursor):
		q.fail(http.StatusBadRequest, "error.form")
		return
	case err != nil:
		q.failed(err)
		return
	}
	if next != "" {
		query.Set("after", next)
		page.Older = "/admin/contacts?" + query.Encode()
	}
	if q.audit(store.AuditSearch, "contacts", strconv.Itoa(len(page.Rows))+" of them") {
		q.render(http.StatusOK, "contacts", page)
	}
}

// contactPage is one customer.
type contactPage struct {
	store.Contact
	Site  string   // its name
	Names []string // of attributes, in order
	Own   []ownValue
	Mine  []ownValue // those of them that the reader may change
	Visit store.Facts
	Chats int
	Past  []store.Past
}

// Place returns where the customer's address is, as far as it is known.
func (p contactPage) Place() string { return strings.Trim(p.Visit.City+", "+p.Visit.Country, ", ") }

// readContact reads what a page shows of a customer, and records that. false means that the answer has been given.
func (q *request) readContact() (page contactPage, ok bool) {
	r, id := q.p.o.Store.Cold(), q.r.PathValue("id")
	var site store.Site
	var note string
	var err error
	if page.Contact, err = r.Contact(q.ctx(), id); err == nil {
		site, err = r.Site(q.ctx(), page.Contact.Site)
	}
	if err == nil {
		page.Visit, page.Chats, err = r.Visits(q.ctx(), id)
	}
	if err == nil {
		note, err = r.ContactNote(q.ctx(), id)
	}
	if err == nil {
		page.Own, err = q.ownValues(id)
	}
	if err == nil {
		page.Past, _, err = r.History(q.ctx(), store.Scope{All: true}, store.Filter{Contact: id}, "", contactChats)
	}
	if err != nil {
		q.failed(err)
		return page, false
	}
	page.Site, page.Names, page.Mine = site.Name, slices.Sorted(maps.Keys(page.Attributes)), q.changeable(page.Own)
	if !q.form.values.Has("note") { // another form of the page is shown again
		q.set("note", note)
	}
	if !strings.HasSuffix(q.r.URL.Path, "/fields") {
		q.show(valuesShown(page.Mine))
	}
	return page, q.audit(store.AuditRead, "contact "+id, "")
}

func (p *Pages) contact(q *request) {
	if page, ok := q.readContact(); ok {
		q.render(http.StatusOK, "contact", page)
	}
}

// changeContact records a change of a customer, makes it, and shows the customer again.
func (q *request) changeContact(action, detail, done string, change func(id string) error) {
	id := q.r.PathValue("id")
	if _, err := q.p.o.Store.Cold().Contact(q.ctx(), id); err != nil {
		q.failed(err)
		return
	}
	if !q.audit(action, "contact "+id, detail) {
		return
	}
	if err := change(id); err == nil {
		q.see("/admin/contacts/"+url.PathEscape(id), done)
	} else if q.failed(err) {
		if page, ok := q.readContact(); ok {
			q.render(q.status(), "contact", page)
		}
	}
}

func (p *Pages) noteContact(q *request) {
	q.changeContact(store.AuditUpdate, "note", "saved", func(id string) error { return p.o.Store.NoteContact(q.ctx(), id, q.block("note")) })
}

func (p *Pages) blockContact(q *request) {
	blocked, action := q.Value("blocked") != "", store.AuditUnblock
	if blocked {
		action = store.AuditBlock
	}
	q.changeContact(action, "", "saved", func(id string) error {
		_, err := p.o.People.Block(q.ctx(), id, blocked, q.me.Agent.Actor(), "")
		return err
	})
}

// eraseContact erases a customer whose page says so, and goes back to the list.
func (p *Pages) eraseContact(q *request) {
	id := q.r.PathValue("id")
	if _, err := p.o.Store.Cold().Contact(q.ctx(), id); err != nil {
		q.failed(err)
		return
	}
	if q.Value("sure") == "" {
		q.wrong("sure", q.T("contacts.erase.sure.missing"))
		if page, ok := q.readContact(); ok {
			q.render(q.status(), "contact", page)
		}
		return
	}
	if !q.audit(store.AuditErase, "contact "+id, "") {
		return
	}
	if err := p.o.People.Erase(q.ctx(), id, q.me.Agent.Actor()); err != nil {
		q.failed(err)
		return
	}
	q.see("/admin/contacts", "deleted")
}

// mergeContact makes a customer a part of another one.
func (p *Pages) mergeContact(q *request) {
	id, into := q.r.PathValue("id"), q.line("into")
	if _, err := p.o.Store.Cold().Contact(q.ctx(), id); err != nil {
		q.failed(err)
		return
	}
	err := store.ErrNotFound
	if into != "" {
		if !q.audit(store.AuditMerge, "contact "+id, "into contact "+into) {
			return
		}
		_, err = p.o.Store.MergeContacts(q.ctx(), id, into)
	}
	switch {
	case err == nil:
		q.see("/admin/contacts/"+url.PathEscape(into), "saved")
		return
	case errors.Is(err, store.ErrNotFound):
		q.wrong("into", q.T("contacts.merge.unknown"))
	case errors.Is(err, store.ErrMerge):
		q.wrong("into", q.T("contacts.merge.refused"))
	default:
		q.failed(err)
		return
	}
	if page, ok := q.readContact(); ok {
		q.render(q.status(), "contact", page)
	}
}
