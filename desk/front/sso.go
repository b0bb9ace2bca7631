package front

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/sso"
	"github.com/go-eddy/eddy/desk/store"
)

// PasswordPolicy says whose passwords log in.
type PasswordPolicy string

// Policies about passwords. Those but PasswordAll make sense with single sign-on only.
const (
	PasswordAll    PasswordPolicy = ""
	PasswordAdmins PasswordPolicy = "admins" // accounts that may manage: the way back when the provider is dead
	PasswordNone   PasswordPolicy = "none"
)

// allows reports whether the password of an account of a role logs in.
func (p PasswordPolicy) allows(r perm.Role) bool {
	return p == PasswordAll || p == PasswordAdmins && r.Can(perm.Manage)
}

// SSORules say who of a provider's people gets in.
type SSORules struct {
	Text      string               // of the button, default "Single sign-on"
	Domains   []string             // of verified e-mail addresses; empty = any address or none
	Roles     map[string]perm.Role // by the names in the provider's claim; empty = roles are those of the accounts
	Create    perm.Role            // of accounts made for people who have none, "" = they are refused
	LinkEmail bool                 // a verified e-mail address that is a login belongs to that account
}

// Reasons of refusals of single sign-on.
const (
	reasonPasswordOff = "password_off"
	reasonSSOLost     = "sso_lost"    // the browser has not begun this login, or too long ago
	reasonSSORefused  = "sso_refused" // the provider has proved nobody
	reasonSSOUnknown  = "sso_unknown" // the person has no account here, or may not log in
	reasonSSOTaken    = "sso_taken"   // there is an account of this name, which belongs to somebody else
	reasonSSOConnect  = "sso_connect" // the account has a second factor: its owner has to connect it
)

const (
	ssoRequests = 8 // that ask the provider at once
	ssoPath     = "/api/v1/agent/sso"
	ssoCookie   = "desk-sso-"
	halfCookie  = ssoCookie + "code"
	flowLife    = 10 * time.Minute
	halfLife    = 5 * time.Minute
	ssoTimeout  = 9 * time.Second // less than pages wait
	ssoBurst    = 60              // logins of one network at once, and one a second after that
)

// signOn is the single sign-on of one Desk.
type signOn struct {
	provider *sso.Provider
	rules    SSORules
	seal     *sso.Seal
	places   chan struct{}
	begun    *auth.Buckets // logins by network
}

// ssoFlow is what a browser keeps while its person is at the provider.
type ssoFlow struct {
	sso.Flow
	Invitation string // token of the invitation that is being accepted
	Agent      string // id of the account that is being connected
}

// ssoHalf is what a browser keeps while the code of a second factor is asked for.
type ssoHalf struct {
	Agent string
	Role  perm.Role
}

// newSignOn returns the single sign-on of the options, nil if there is none.
func (f *Front) newSignOn(ctx context.Context) (*signOn, error) {
	if f.o.SSO == nil {
		return nil, nil
	}
	key, err := f.store.Secret(ctx, "sso")
	if err != nil {
		return nil, err
	}
	seal, err := sso.NewSeal(key, f.o.Now)
	return &signOn{
		provider: f.o.SSO, rules: f.o.SSORules, seal: seal,
		places: make(chan struct{}, ssoRequests), begun: f.o.Shared.Count("single sign-ons", auth.NewBuckets(1, ssoBurst, maxLimited)),
	}, err
}

// ssoRoutes adds the routes of single sign-on. They exist without it, too, so that pages can ask.
func (f *Front) ssoRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/agent/sso", f.ssoState)
	mux.HandleFunc("POST /api/v1/agent/sso/begin", f.limited(f.places.staff, f.withSSO(f.ssoBegin)))
	mux.HandleFunc("POST /api/v1/agent/sso/code", f.limited(f.places.staff, f.withSSO(f.ssoCode)))
	finish := f.withSSO(f.ssoFinish)
	if f.sso != nil {
		finish = f.limited(f.sso.places, finish)
	}
	mux.HandleFunc("POST /api/v1/agent/sso/finish", finish)
}

// withSSO refuses requests where there is no single sign-on, and bounds the others.
func (f *Front) withSSO(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if f.sso == nil {
			problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "This server has no single sign-on."})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), f.within(ssoTimeout))
		defer cancel()
		next(w, r.WithContext(ctx))
	}
}

// ssoState tells the login page what there is.
func (f *Front) ssoState(w http.ResponseWriter, _ *http.Request) {
	type state struct {
		Text  string `json:"text,omitempty"`
		Ready bool   `json:"ready"`
	}
	out := struct {
		SSO       *state         `json:"sso,omitempty"`
		Passwords PasswordPolicy `json:"passwords,omitempty"` // whose passwords log in, "" = everybody's
	}{Passwords: f.o.Passwords}
	if f.sso != nil {
		out.SSO = &state{f.sso.rules.Text, f.sso.provider.Ready() == nil}
	}
	answer(w, out)
}

// cookieFor keeps a sealed value in the browser. maxAge below 0 removes it.
func (f *Front) cookieFor(name, value string, life time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: ssoPath, MaxAge: int(life.Seconds()), HttpOnly: true, Secure: f.o.HTTPS, SameSite: http.SameSiteStrictMode,
	}
}

// flowCookie is the name of the cookie of one login. Each has its own, so that two tabs do not disturb each other.
func flowCookie(state string) string {
	sum := sha256.Sum256([]byte(state))
	return ssoCookie + hex.EncodeToString(sum[:8])
}

// ssoBegin answers with the provider's address to go to. The login of the request is connected if asked.
func (f *Front) ssoBegin(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Invitation string
		Connect    bool
	}
	if !decode(w, r, &in) {
		return
	}
	flow := ssoFlow{Invitation: in.Invitation}
	if in.Connect {
		s, err := f.loggedIn(r.Context(), r)
		if err != nil || f.o.SecondFactor.Bars(s.Agent) {
			f.notLoggedIn(w, r)
			return
		}
		flow.Agent = s.Agent.ID
	}
	address, begun, err := f.sso.provider.Begin()
	if err != nil {
		f.ssoFailed(w, r, err)
		return
	}
	flow.Flow = begun
	value, err := f.sso.seal.Close("flow", flow, flowLife)
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	http.SetCookie(w, f.cookieFor(flowCookie(begun.State), value, flowLife))
	answer(w, struct {
		URL string `json:"url"`
	}{address})
}

// ssoAllowed bounds what one network asks of the provider. false means that the answer has been given.
func (f *Front) ssoAllowed(w http.ResponseWriter, r *http.Request) bool {
	from := network(f.address(r))
	if from == "" {
		return true // this machine
	}
	wait := f.sso.begun.Take(from, f.o.Now())
	if wait > 0 {
		f.throttled(w, wait)
	}
	return wait == 0
}

// ssoFinish takes what the browser has brought back from the provider, and logs the person in.
func (f *Front) ssoFinish(w http.ResponseWriter, r *http.Request) {
	var in struct{ State, Code string }
	if !decode(w, r, &in) {
		return
	}
	var flow ssoFlow
	name := flowCookie(in.State)
	c, err := r.Cookie(name)
	if err != nil || !f.sso.seal.Open("flow", c.Value, &flow) {
		f.ssoProblem(w, http.StatusBadRequest, reasonSSOLost, "This login began in another browser, or too long ago. Begin again.")
		return
	}
	if !f.ssoAllowed(w, r) {
		return
	}
	http.SetCookie(w, f.cookieFor(name, "", -time.Second))
	who, err := f.sso.provider.Finish(r.Context(), flow.Flow, in.State, in.Code)
	if err != nil {
		f.ssoFailed(w, r, err)
		return
	}
	role, ok := f.sso.rules.admit(who)
	if !ok {
		f.ssoUnknown(w, r, store.AgentAccount{})
		return
	}
	switch {
	case flow.Agent != "":
		f.ssoConnect(w, r, flow.Agent, who)
	case flow.Invitation != "":
		f.ssoAccept(w, r, flow.Invitation, who)
	default:
		f.ssoEnter(w, r, who, role)
	}
}

// admit returns the role that the rules give to a person, "" if that is the account's. false means that the person may
// not come in.
func (s *SSORules) admit(who sso.Person) (perm.Role, bool) {
	_, domain, _ := strings.Cut(who.Email, "@")
	if len(s.Domains) > 0 && !slices.ContainsFunc(s.Domains, func(d string) bool { return strings.EqualFold(d, domain) }) {
		return "", false
	}
	if len(s.Roles) == 0 {
		return "", true
	}
	var best perm.Role
	for _, name := range who.Groups {
		if role := s.Roles[name]; slices.Index(perm.Roles(), role) > slices.Index(perm.Roles(), best) {
			best = role
		}
	}
	return best, best != ""
}

func identity(who sso.Person) store.Identity {
	return store.Identity{Issuer: who.Issuer, Subject: who.Subject}
}

// ssoEnter logs the account of a person in. A person without one gets one if the rules say so.
func (f *Front) ssoEnter(w http.ResponseWriter, r *http.Request, who sso.Person, role perm.Role) {
	ctx := r.Context()
	account, err := f.store.Cold().AgentByIdentity(ctx, identity(who))
	if errors.Is(err, store.ErrNotFound) {
		account, err = f.ssoFirst(ctx, r, who, role)
	}
	var refused *ssoRefusal
	switch {
	case errors.As(err, &refused):
		f.loginFailed(account, "single sign-on", f.address(r))
		f.ssoProblem(w, http.StatusForbidden, refused.reason, refused.text)
	case errors.Is(err, store.ErrNotFound):
		f.ssoUnknown(w, r, account)
	case err != nil:
		f.storeProblem(w, err)
	case account.Disabled:
		f.ssoUnknown(w, r, account)
	case account.Factor:
		f.ssoAskCode(w, ssoHalf{account.ID, role})
	default:
		f.ssoIn(w, r, account, role, "single sign-on")
	}
}

// ssoRefusal is an error that the person has to read.
type ssoRefusal struct{ reason, text string }

func (r *ssoRefusal) Error() string { return "front: " + r.text }

// ssoFirst finds or makes the account of a person who comes for the first time. The error is store.ErrNotFound if the
// person is to be refused.
func (f *Front) ssoFirst(ctx context.Context, r *http.Request, who sso.Person, role perm.Role) (store.AgentAccount, error) {
	if f.sso.rules.LinkEmail && who.Email != "" {
		account, err := f.store.Cold().AgentByLogin(ctx, who.Email)
		switch {
		case err == nil && account.Disabled:
			return account, store.ErrNotFound
		case err == nil && account.Factor: // an address alone is less than its owner has asked for
			return account, &ssoRefusal{reasonSSOConnect, "This account has a second factor. Log in with password and code, and connect it in the menu."}
		case err == nil:
			return account, f.link(ctx, r, account, who, "by e-mail address")
		case !errors.Is(err, store.ErrNotFound):
			return account, err
		}
	}
	if f.sso.rules.Create == "" {
		return store.AgentAccount{}, store.ErrNotFound
	}
	a := invitedAccount(who)
	a.Role = cmp.Or(role, f.sso.rules.Create)
	a.NoChats = !a.Role.TakesChats()
	if a.Check() != nil {
		return store.AgentAccount{}, store.ErrNotFound
	}
	err := f.audit(ctx, store.Actor{Name: a.Name}, store.AuditCreate, "agent "+a.Login, "by single sign-on, role "+string(a.Role), f.address(r))
	if err == nil {
		a, err = f.store.CreateAgentFor(ctx, a, identity(who))
	}
	if errors.Is(err, store.ErrExists) {
		err = &ssoRefusal{reasonSSOTaken, "There is an account of this name already. Ask an administrator."}
	}
	return a, err
}

// invitedAccount returns the account that a person gets: the login is the verified e-mail address, or else the name at
// the provider.
func invitedAccount(who sso.Person) store.AgentAccount {
	login := strings.ToLower(cmp.Or(who.Email, strings.TrimSpace(who.Login)))
	name := strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return -1
		}
		return c
	}, who.Name))
	return store.AgentAccount{Login: login, Name: shortened(cmp.Or(name, login), store.MaxName), Capacity: invitedCapacity, Linked: true}
}

// link makes an account belong to a person.
func (f *Front) link(ctx context.Context, r *http.Request, account store.AgentAccount, who sso.Person, how string) error {
	err := f.audit(ctx, account.Actor(), store.AuditIdentity, "agent "+account.ID, "linked "+how, f.address(r))
	if err == nil {
		err = f.store.LinkIdentity(ctx, account.ID, identity(who))
	}
	if errors.Is(err, store.ErrExists) {
		err = &ssoRefusal{reasonSSOTaken, "This account, or this person of the provider, is connected already. Ask an administrator."}
	}
	return err
}

// ssoConnect connects the account that is logged in.
func (f *Front) ssoConnect(w http.ResponseWriter, r *http.Request, agent string, who sso.Person) {
	s, err := f.loggedIn(r.Context(), r)
	if err != nil || s.Agent.ID != agent || f.o.SecondFactor.Bars(s.Agent) {
		f.notLoggedIn(w, r)
		return
	}
	err = f.link(r.Context(), r, s.Agent, who, "by its owner")
	var refused *ssoRefusal
	switch {
	case errors.As(err, &refused):
		f.ssoProblem(w, http.StatusConflict, refused.reason, refused.text)
	case err != nil:
		f.storeProblem(w, err)
	default:
		s.Agent.Linked = true
		answer(w, f.agentAnswer(s.Agent))
	}
}

// ssoAccept makes the account of an invitation for a person of the provider.
func (f *Front) ssoAccept(w http.ResponseWriter, r *http.Request, invitation string, who sso.Person) {
	ctx, token := r.Context(), auth.HashToken(invitation)
	v, err := f.store.Cold().Invitation(ctx, token, f.o.Now())
	if err != nil {
		f.notInvited(w, err)
		return
	}
	a := invitedAccount(who)
	a.Name, a.Role = cmp.Or(v.Name, a.Name), v.Role
	if err = a.Check(); err == nil {
		a, err = f.join(ctx, r, v, token, a, identity(who))
	}
	if errors.Is(err, store.ErrExists) {
		f.ssoProblem(w, http.StatusConflict, reasonSSOTaken, "There is an account of this name, or of this person, already. Log in, or choose login and password by the link.")
		return
	}
	if err != nil {
		f.notAccepted(w, err)
		return
	}
	f.ssoIn(w, r, a, "", "invitation, single sign-on")
}
