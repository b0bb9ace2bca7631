package admin

import (
	"net/http"
	"strings"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// keyList is the list of API keys. Those that work come first.
type keyList struct{ Keys []store.APIKey }

// Most returns how many keys may work at once.
func (keyList) Most() int { return store.MaxAPIKeys }

func (p *Pages) keys(q *request) {
	q.shown()
	keys, err := p.o.Store.Cold().APIKeys(q.ctx())
	if err != nil {
		q.failed(err)
		return
	}
	q.render(http.StatusOK, "keys", keyList{keys})
}

// keyPage is the form of a new key.
type keyPage struct{}

// Scopes returns the scopes to choose from.
func (keyPage) Scopes() []perm.KeyScope { return perm.KeyScopes() }

func (p *Pages) newKey(q *request) { q.render(http.StatusOK, "key", keyPage{}) }

// createKey makes a key and shows its secret once.
func (p *Pages) createKey(q *request) {
	secret, prefix, hash := auth.NewKey()
	k := store.APIKey{Name: q.line("name"), Prefix: prefix, By: q.me.Agent.Actor()}
	for _, s := range q.form.values["scopes"] {
		k.Scopes = append(k.Scopes, perm.KeyScope(s))
	}
	k, err := p.o.Store.CreateAPIKey(q.ctx(), k, hash)
	switch {
	case err != nil:
		if q.failed(err) {
			q.render(q.status(), "key", keyPage{})
		}
	case q.audit(store.AuditCreate, "key "+k.ID, describeKey(&k)):
		q.seeOnce("/admin/keys", "created", secret)
	}
}

// describeKey says which key it is, without its secret.
func describeKey(k *store.APIKey) string {
	scopes := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		scopes[i] = string(s)
	}
	return k.Name + ", " + k.Prefix + "…, scopes " + strings.Join(scopes, " ")
}

func (p *Pages) revokeKey(q *request) {
	id := q.r.PathValue("id")
	if err := p.o.Store.RevokeAPIKey(q.ctx(), id); err != nil {
		q.failed(err)
		return
	}
	if q.audit(store.AuditDelete, "key "+id, "revoked") {
		q.see("/admin/keys", "revoked")
	}
}
