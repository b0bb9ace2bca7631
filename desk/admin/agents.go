package admin

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

const newAgentCapacity = 5

func (p *Pages) agents(q *request) {
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	q.render(http.StatusOK, "agents", all)
}

// agentPage is the form of an account; ID is "" for a new one.
type agentPage struct {
	*lists
	ID, Login, Name string
	Factor, Linked  bool
}

// Roles returns the roles to choose from.
func (agentPage) Roles() []perm.Role { return perm.Roles() }

// Chats returns the answers to whether an account takes chats.
func (agentPage) Chats() []string { return []string{"yes", "no"} }

func (p *Pages) newAgent(q *request) {
	q.set("role", string(perm.Agent))
	q.set("capacity", strconv.Itoa(newAgentCapacity))
	q.agentForm(http.StatusOK, store.AgentAccount{})
}

func (q *request) agentForm(status int, a store.AgentAccount) {
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	q.render(status, "agent", agentPage{all, a.ID, a.Login, a.Name, a.Factor, a.Linked})
}

// agentEntered fills an account with the values of the form.
func (q *request) agentEntered(a *store.AgentAccount) {
	a.Name, a.Role, a.Capacity = q.line("name"), perm.Role(q.Value("role")), int(q.number("capacity"))
	a.Locale, a.Disabled, a.Email = q.Value("locale"), q.Value("disabled") != "", q.line("email")
	a.Skills, a.Languages = store.Skills(q.line("skills")), store.Languages(q.line("languages"))
	switch q.Value("chats") {
	case "yes":
		a.NoChats = false
	case "no":
		a.NoChats = true
	default:
		a.NoChats = !a.Role.TakesChats()
	}
}

// chatsOf is the value of the field that says whether an account takes chats.
func chatsOf(a *store.AgentAccount) string {
	if a.NoChats {
		return "no"
	}
	return "yes"
}

// groupsEntered returns the chosen groups that exist.
func (q *request) groupsEntered() ([]string, error) {
	groups, err := q.p.o.Store.Cold().Groups(q.ctx())
	if err != nil {
		return nil, err
	}
	var chosen []string
	for _, g := range groups {
		if q.Has("groups", g.ID) {
			chosen = append(chosen, g.ID)
		}
	}
	return chosen, nil
}

func (p *Pages) createAgent(q *request) {
	a := store.AgentAccount{Login: strings.ToLower(q.line("login"))}
	q.agentEntered(&a)
	a.Disabled = false
	if err := a.Check(); err != nil {
		q.failed(err)
	}
	groups, err := q.groupsEntered()
	if err != nil {
		q.failed(err)
		return
	}
	if q.Failed() > 0 {
		q.agentForm(http.StatusUnprocessableEntity, store.AgentAccount{})
		return
	}
	password := auth.NewPassword()
	if a.Password, err = p.o.Hash(q.ctx(), password); err == nil {
		a, err = p.o.Store.CreateAgent(q.ctx(), a)
	}
	if err == nil {
		err = p.o.Store.SetGroups(q.ctx(), a.ID, groups)
	}
	switch {
	case errors.Is(err, store.ErrExists):
		q.wrong("login", q.T("reason.taken"))
		q.agentForm(http.StatusUnprocessableEntity, store.AgentAccount{})
	case err != nil:
		if q.failed(err) {
			q.agentForm(http.StatusUnprocessableEntity, store.AgentAccount{})
		}
	case q.audit(store.AuditCreate, "agent "+a.ID, "login "+a.Login+", role "+string(a.Role)):
		q.seeOnce("/admin/agents/"+a.ID, "created", password)
	}
}

// agent finds the account that the address names. False means that the answer has been given.
func (q *request) agent() (store.AgentAccount, bool) {
	a, err := q.p.o.Store.Cold().AgentByID(q.ctx(), q.r.PathValue("id"))
	if err != nil {
		q.failed(err)
	}
	return a, err == nil
}

func (p *Pages) editAgent(q *request) {
	a, ok := q.agent()
	if !ok {
		return
	}
	shown, err := q.accountShown(&a)
	if err != nil {
		q.failed(err)
		return
	}
	q.show(shown)
	q.shown()
	q.agentForm(http.StatusOK, a)
}

// accountShown returns the fields of an account.
func (q *request) accountShown(a *store.AgentAccount) (url.Values, error) {
	members, err := q.p.o.Store.Cold().Members(q.ctx())
	shown := url.Values{"name": {a.Name}, "role": {string(a.Role)}, "capacity": {strconv.Itoa(a.Capacity)}, "chats": {chatsOf(a)}, "locale": {a.Locale}, "email": {a.Email}}
	shown.Set("skills", strings.ReplaceAll(a.Skills, ",", ", "))
	shown.Set("languages", strings.ReplaceAll(a.Languages, ",", ", "))
	tick(shown, "disabled", a.Disabled)
	for g, agents := range members {
		if slices.Contains(agents, a.ID) {
			shown.Add("groups", g)
		}
	}
	slices.Sort(shown["groups"])
	return shown, err
}

func (p *Pages) saveAgent(q *request) {
	done, ok := q.alone()
	if !ok {
		return
	}
	defer done()
	before, ok := q.agent()
	if !ok {
		return
	}
	stored, err := q.accountShown(&before)
	if err != nil {
		q.failed(err)
		return
	}
	q.outdated(stored)
	a := before
	q.agentEntered(&a)
	groups, err := q.groupsEntered()
	if err == nil && q.Failed() == 0 {
		err = p.o.Store.UpdateAgent(q.ctx(), a)
	}
	if err == nil && q.Failed() == 0 {
		err = p.o.Store.SetGroups(q.ctx(), a.ID, groups)
	}
	if err != nil && !q.failed(err) {
		return
	}
	if q.Failed() > 0 {
		q.agentForm(q.status(), before)
		return
	}
	action, detail := store.AuditUpdate, agentDifference(before, a)
	if a.Role != before.Role {
		action = store.AuditRole
	}
	if q.audit(action, "agent "+a.ID, detail) {
		q.see("/admin/agents/"+a.ID, "saved")
	}
}

// agentDifference describes the changes in a few words.
func agentDifference(before, a store.AgentAccount) string {
	var parts []string
	add := func(name, old, now string) {
		if old != now {
			parts = append(parts, name+" "+old+" → "+now)
		}
	}
	add("role", string(before.Role), string(a.Role))
	add("name", before.Name, a.Name)
	add("capacity", strconv.Itoa(before.Capacity), strconv.Itoa(a.Capacity))
	add("takes chats", chatsOf(&before), chatsOf(&a))
	add("skills", before.Skills, a.Skills)
	add("languages", before.Languages, a.Languages)
	if before.Email != a.Email {
		parts = append(parts, "e-mail address")
	}
	add("disabled", strconv.FormatBool(before.Disabled), strconv.FormatBool(a.Disabled))
	return strings.Join(parts, ", ")
}

func (p *Pages) resetPassword(q *request) {
	a, ok := q.agent()
	if !ok {
		return
	}
	password := auth.NewPassword()
	hash, err := p.o.Hash(q.ctx(), password)
	if err == nil {
		err = p.o.Store.ResetPassword(q.ctx(), a.ID, hash)
	}
	if err != nil {
		q.failed(err)
		return
	}
	if q.audit(store.AuditPassword, "agent "+a.ID, "reset by an administrator") {
		if a.ID == q.me.Agent.ID {
			q.see("/console", "") // this login has ended, too
			return
		}
		q.seeOnce("/admin/agents/"+a.ID, "reset", password)
	}
}
