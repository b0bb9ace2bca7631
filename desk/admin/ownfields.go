package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

const dropAtOnce = 1000 // values of a field, so that messages need not wait long for the writer

func (p *Pages) fieldRoutes() []Route {
	manage := func(pattern string, serve func(*request)) Route { return Route{pattern, perm.Manage, p.serve(serve)} }
	return []Route{
		manage("GET /admin/fields", p.ownFields), manage("GET /admin/fields/new-field", p.newOwnField), manage("POST /admin/fields", p.createOwnField), // no key has a dash
		manage("GET /admin/fields/{id}", p.editOwnField), manage("POST /admin/fields/{id}", p.saveOwnField), manage("POST /admin/fields/{id}/delete", p.deleteOwnField),
	}
}

func (p *Pages) ownFields(q *request) {
	all, err := p.o.Store.Cold().OwnFields(q.ctx())
	if err != nil {
		q.failed(err)
		return
	}
	q.render(http.StatusOK, "fields", all)
}

// fieldPage is the form of an own field; Key is "" for a new one.
type fieldPage struct {
	store.OwnField
	Use int // customers with a value
}

// Kinds returns the kinds of values to choose from.
func (fieldPage) Kinds() []store.FieldKind { return store.FieldKinds() }

// Levels returns who may see values, or change them.
func (fieldPage) Levels(edit bool) []store.FieldLevel {
	all := store.FieldLevels()
	if !edit {
		return all[:len(all)-1]
	}
	return all
}

func (p *Pages) newOwnField(q *request) {
	q.set("kind", string(store.FieldText))
	q.set("see", string(store.FieldStaff))
	q.set("edit", string(store.FieldStaff))
	q.render(http.StatusOK, "field", fieldPage{})
}

func (q *request) fieldForm(status int, f store.OwnField) {
	page := fieldPage{OwnField: f}
	if f.Key != "" {
		var err error
		if page.Use, err = q.p.o.Store.Cold().FieldUse(q.ctx(), f.Key); err != nil {
			q.failed(err)
			return
		}
	}
	q.render(status, "field", page)
}

func (p *Pages) createOwnField(q *request) {
	p.storeOwnField(q, store.OwnField{}, func(f store.OwnField) error { return p.o.Store.CreateOwnField(q.ctx(), f) })
}

func (p *Pages) saveOwnField(q *request) {
	done, ok := q.alone()
	if !ok {
		return
	}
	defer done()
	before, ok := q.ownField()
	if !ok {
		return
	}
	q.outdated(fieldShown(&before))
	p.storeOwnField(q, before, func(f store.OwnField) error { return p.o.Store.UpdateOwnField(q.ctx(), f) })
}

// storeOwnField makes or changes a definition.
func (p *Pages) storeOwnField(q *request, before store.OwnField, write func(store.OwnField) error) {
	f := store.OwnField{
		Key: before.Key, Label: q.line("label"), Kind: store.FieldKind(q.Value("kind")), See: store.FieldLevel(q.Value("see")), Edit: store.FieldLevel(q.Value("edit")), Position: int(q.number("position")),
	}
	if before.Key == "" {
		f.Key = q.line("key")
	}
	if f.Kind == store.FieldChoice {
		f.Choices = q.lines("choices")
	}
	var err error
	if q.Failed() == 0 {
		err = write(f)
	}
	if errors.Is(err, store.ErrExists) {
		q.wrong("key", q.T("reason.taken"))
	} else if err != nil && !q.failed(err) {
		return
	}
	if q.Failed() > 0 {
		q.fieldForm(q.status(), before)
		return
	}
	action, done := store.AuditUpdate, "saved"
	if before.Key == "" {
		action, done = store.AuditCreate, "created"
	}
	if q.audit(action, "field "+f.Key, fmt.Sprintf("%s, seen by %s, changed by %s", f.Kind, f.See, f.Edit)) {
		q.see("/admin/fields/"+f.Key, done)
	}
}

// ownField returns the field that the address names. False means that the answer has been given.
func (q *request) ownField() (store.OwnField, bool) {
	all, err := q.p.o.Store.Cold().OwnFields(q.ctx())
	if err == nil {
		if i := slices.IndexFunc(all, func(f store.OwnField) bool { return f.Key == q.r.PathValue("id") }); i >= 0 {
			return all[i], true
		}
		err = store.ErrNotFound
	}
	q.failed(err)
	return store.OwnField{}, false
}

// fieldShown returns the fields of a definition.
func fieldShown(f *store.OwnField) url.Values {
	return url.Values{
		"label": {f.Label}, "kind": {string(f.Kind)}, "choices": {strings.Join(f.Choices, "\n")}, "see": {string(f.See)}, "edit": {string(f.Edit)}, "position": {strconv.Itoa(f.Position)},
	}
}

func (p *Pages) editOwnField(q *request) {
	if f, ok := q.ownField(); ok {
		q.show(fieldShown(&f))
		q.fieldForm(http.StatusOK, f)
	}
}

// deleteOwnField removes a field with its values. The form has said how many there are; more than that are not removed.
func (p *Pages) deleteOwnField(q *request) {
	f, ok := q.ownField()
	if !ok {
		return
	}
	said := q.number("values")
	use, err := p.o.Store.Cold().FieldUse(q.ctx(), f.Key)
	if err != nil {
		q.failed(err)
		return
	}
	if int64(use) > said || use > 0 && q.Value("sure") == "" {
		q.askAgain(f)
		return
	}
	if !q.audit(store.AuditDelete, "field "+f.Key, strconv.Itoa(use)+" values") {
		return
	}
	for more := true; more; {
		if more, err = p.o.Store.DropOwnField(q.ctx(), f.Key, int(said), dropAtOnce); errors.Is(err, store.ErrInUse) {
			q.askAgain(f)
			return
		} else if err != nil {
			q.failed(err)
			return
		}
	}
	q.see("/admin/fields", "deleted")
}

// askAgain shows a definition that is not removed, with the number of its values as it is now.
func (q *request) askAgain(f store.OwnField) {
	q.show(fieldShown(&f))
	q.wrong("sure", q.T("own.delete.sure.missing"))
	q.fieldForm(http.StatusUnprocessableEntity, f)
}

// ownValue is an own field on the page of a customer.
type ownValue struct {
	store.OwnField
	Name  string // of its input
	Value string
}

// fieldsShown returns the definitions that the reader may see.
func (q *request) fieldsShown() ([]store.OwnField, error) {
	all, err := q.p.o.Store.Cold().OwnFields(q.ctx())
	return slices.DeleteFunc(all, func(f store.OwnField) bool { return !f.ShownTo(q.me.Agent.Role) }), err
}

// ownValues reads the own fields that the reader may see, with the values of a customer.
func (q *request) ownValues(contact string) (shown []ownValue, err error) {
	all, err := q.fieldsShown()
	if err != nil {
		return nil, err
	}
	values, err := q.p.o.Store.Cold().FieldValues(q.ctx(), contact)
	for _, f := range all {
		shown = append(shown, ownValue{f, "own_" + f.Key, values[f.Key]})
	}
	return shown, err
}

// Says returns a value in words.
func (q *request) Says(v ownValue) string {
	if v.Kind == store.FieldYesNo && v.Value != "" {
		return q.T("own." + v.Value)
	}
	return q.Private(v.Value)
}

// OwnInput describes the input of an own field, kind "choice" for a list.
func (q *request) OwnInput(v ownValue) input {
	in := input{request: q, Name: v.Name, Kind: "text", Label: v.Label, Help: q.T("own.value." + string(v.Kind)), Max: store.MaxFieldValue}
	switch v.Kind {
	case store.FieldDate:
		in.Kind, in.Max = "date", 0
	case store.FieldChoice, store.FieldYesNo:
		in.Kind = "choice"
	}
	return in
}

// Options returns the values of a list to choose from, and what they are called.
func (q *request) Options(v ownValue) (options [][2]string) {
	if v.Kind == store.FieldYesNo {
		return [][2]string{{"yes", q.T("own.yes")}, {"no", q.T("own.no")}}
	}
	for _, c := range v.Choices {
		options = append(options, [2]string{c, c})
	}
	return options
}

// changeable returns the own fields that the reader may change.
func (q *request) changeable(all []ownValue) (some []ownValue) {
	for _, v := range all {
		if v.ChangedBy(q.me.Agent.Role) {
			some = append(some, v)
		}
	}
	return some
}

// valuesShown returns what the form of a customer's own fields shows.
func valuesShown(all []ownValue) url.Values {
	shown := make(url.Values)
	for _, v := range all {
		shown.Set(v.Name, v.Value)
	}
	return shown
}

// saveOwnValues changes the values of a customer.
func (p *Pages) saveOwnValues(q *request) {
	done, ok := q.alone()
	if !ok {
		return
	}
	defer done()
	id := q.r.PathValue("id")
	all, err := q.ownValues(id)
	if err == nil {
		_, err = p.o.Store.Cold().Contact(q.ctx(), id)
	}
	if err != nil {
		q.failed(err)
		return
	}
	some := q.changeable(all)
	q.outdated(valuesShown(some))
	change := make(map[string]string)
	for _, v := range some {
		text := q.line(v.Name)
		if !q.form.values.Has(v.Name) || text == v.Value {
			continue
		}
		if _, err := v.Take(q.me.Agent.Role, text); err != nil {
			q.wrong(v.Name, q.T("own.value."+string(v.Kind)))
		}
		change[v.Key] = text
	}
	if q.Failed() > 0 {
		if page, ok := q.readContact(); ok {
			q.render(q.status(), "contact", page)
		}
		return
	}
	if len(change) == 0 {
		q.see("/admin/contacts/"+url.PathEscape(id), "saved")
		return
	}
	q.changeContact(store.AuditUpdate, store.FieldsNamed(change), "saved", func(id string) error {
		_, err := p.o.People.PatchContact(q.ctx(), store.ContactPatch{Contact: id, Fields: change, Role: q.me.Agent.Role})
		return err
	})
}

// fieldFilter puts the condition about an own field into a query for customers. False means that there is no such field
// for the reader.
func (q *request) fieldFilter(all []store.OwnField, ask *store.ContactQuery) bool {
	key := q.line("field")
	if key == "" {
		return true
	}
	i := slices.IndexFunc(all, func(f store.OwnField) bool { return f.Key == key })
	if i < 0 {
		return false
	}
	f := &all[i]
	ask.Field, ask.Value, ask.Exact = key, q.line("value"), f.Kind != store.FieldText
	for _, say := range []string{"yes", "no"} {
		if f.Kind == store.FieldYesNo && strings.EqualFold(ask.Value, q.T("own."+say)) {
			ask.Value = say
		}
	}
	if v, ok := f.Value(ask.Value); ok {
		ask.Value = v
	}
	return true
}
