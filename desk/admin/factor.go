package admin

import "github.com/go-eddy/eddy/desk/store"

// resetFactor removes the second factor of somebody whose app and recovery codes are lost, and ends every login of the
// account.
func (p *Pages) resetFactor(q *request) {
	a, ok := q.agent()
	if !ok {
		return
	}
	if err := p.o.Store.RemoveFactor(q.ctx(), a.ID, store.Token{}); err != nil {
		q.failed(err)
		return
	}
	if q.audit(store.AuditFactor, "agent "+a.ID, "reset by an administrator") {
		q.see("/admin/agents/"+a.ID, "factor")
	}
}

// unlink removes the identities of an account at the provider of single sign-on, and ends its logins.
func (p *Pages) unlink(q *request) {
	a, ok := q.agent()
	if !ok {
		return
	}
	if err := p.o.Store.UnlinkIdentities(q.ctx(), a.ID); err != nil {
		q.failed(err)
		return
	}
	if q.audit(store.AuditIdentity, "agent "+a.ID, "unlinked by an administrator") {
		q.see("/admin/agents/"+a.ID, "unlinked")
	}
}
