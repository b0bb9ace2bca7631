package admin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	inviteDays = 3 // unless the form says otherwise
	day        = 24 * time.Hour
)

// invitationList is the list of invitations. Those that can be used come first.
type invitationList struct {
	*lists
	Invitations []store.Invitation
	now         int64
}

// Most returns how many invitations may be open at once.
func (invitationList) Most() int { return store.MaxInvitations }

// State says what has become of an invitation: "open", "expired", "used" or "revoked".
func (l invitationList) State(v store.Invitation) string {
	switch {
	case v.Agent != "":
		return "used"
	case v.Ended > 0:
		return "revoked"
	case v.Expires <= l.now:
		return "expired"
	}
	return "open"
}

// GroupNames returns the names of the groups of an invitation.
func (l invitationList) GroupNames(v store.Invitation) string {
	var names []string
	for _, g := range l.Groups {
		if slices.Contains(v.Groups, g.ID) {
			names = append(names, g.Name)
		}
	}
	return strings.Join(names, ", ")
}

func (p *Pages) invitations(q *request) {
	q.shown()
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	open, err := p.o.Store.Cold().Invitations(q.ctx())
	if err != nil {
		q.failed(err)
		return
	}
	q.render(http.StatusOK, "invitations", invitationList{all, open, p.o.Now().UnixMilli()})
}

func (p *Pages) newInvitation(q *request) {
	q.set("role", string(perm.Agent))
	q.set("days", strconv.Itoa(inviteDays))
	q.invitationForm(http.StatusOK)
}

func (q *request) invitationForm(status int) {
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	q.render(status, "invitation", agentPage{lists: all})
}

// createInvitation makes an invitation and shows its link once.
func (p *Pages) createInvitation(q *request) {
	token, hash := auth.NewToken()
	days := q.number("days")
	v := store.Invitation{Name: q.line("name"), Role: perm.Role(q.Value("role")), By: q.me.Agent.Actor(), Expires: p.o.Now().Add(time.Duration(days) * day).UnixMilli()}
	var err error
	if v.Groups, err = q.groupsEntered(); err == nil && q.Failed() == 0 {
		v, err = p.o.Store.CreateInvitation(q.ctx(), v, hash)
	}
	if err != nil && !q.failed(err) {
		return
	}
	if text := q.Error("expires"); text != "" {
		q.wrong("days", text)
		delete(q.errs, "expires")
	}
	if q.Failed() > 0 {
		q.invitationForm(http.StatusUnprocessableEntity)
		return
	}
	if q.audit(store.AuditCreate, "invitation "+v.ID, "role "+string(v.Role)+", for "+strconv.FormatInt(days, 10)+" days") {
		q.seeOnce("/admin/invitations", "created", q.address("/console#invite="+token))
	}
}

// address returns the whole address of a page of Desk: that by which it is known, else that of this request.
func (q *request) address(path string) string {
	origin := q.p.o.Public
	if origin == "" {
		origin = q.origin()
	}
	if !store.ValidOrigin(origin) {
		origin = ""
	}
	return origin + path
}

func (p *Pages) revokeInvitation(q *request) {
	id := q.r.PathValue("id")
	if err := p.o.Store.RevokeInvitation(q.ctx(), id); err != nil {
		q.failed(err)
		return
	}
	if q.audit(store.AuditDelete, "invitation "+id, "revoked") {
		q.see("/admin/invitations", "withdrawn")
	}
}
