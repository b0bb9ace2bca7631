package front

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// siteInfo is what a page needs to know about its site.
type siteInfo struct {
	Key      string        `json:"key"`
	Name     string        `json:"name"`
	Color    string        `json:"color,omitempty"`
	Logo     *logoInfo     `json:"logo,omitempty"`
	Greeting string        `json:"greeting,omitempty"`
	Consent  string        `json:"consent,omitempty"`
	PreChat  []store.Field `json:"prechat,omitempty"`
	Rate     bool          `json:"rate,omitempty"`    // ask for a score at the end
	Visits   string        `json:"visits"`            // what is kept of them, so that pages say no more
	Mail     bool          `json:"mail,omitempty"`    // the visitor may have a chat that is over sent by mail
	Answers  bool          `json:"answers,omitempty"` // answers to left messages go by mail, too
}

func (f *Front) infoOf(s store.Site) siteInfo {
	o := &s.Settings
	return siteInfo{Key: s.Key, Name: s.Name, Color: o.Color, Logo: logoOf(&s), Greeting: o.Greeting, Consent: o.Consent, PreChat: o.PreChat, Rate: o.RateChat, Visits: o.VisitsKept(), Mail: o.MailChats && f.o.Mail.On(), Answers: f.o.Mail.On()}
}

type visitorInfo struct {
	Token    string   `json:"token"`
	New      bool     `json:"new"`
	Contact  string   `json:"contact"`
	Verified bool     `json:"verified"`
	Name     string   `json:"name"`
	Site     siteInfo `json:"site"`
}

// visit is one request for a visitor's session.
type visit struct {
	site   store.Site
	ip     string
	token  string        // the token that the browser kept
	hash   store.Token   // hash of token
	kept   store.Contact // contact of this site that token stands for; zero if there is none
	locale string
}

// widgetSession gives a visitor an identity, or refreshes the one it has. A signed identity alone decides who the
// visitor is. Without one the token decides, unless that token stands for a contact with a signed identity.
func (f *Front) widgetSession(w http.ResponseWriter, r *http.Request) {
	var in struct{ Site, Token, Identity, Locale string }
	if !decode(w, r, &in) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	site, err := f.store.Hot().SiteByKey(ctx, in.Site)
	if errors.Is(err, store.ErrNotFound) {
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such site."})
		return
	}
	if err == nil && !allows(&site, foreign(r)) {
		f.wrongOrigin(w)
		return
	}
	v := visit{site: site, ip: f.address(r), token: in.Token, locale: localeOf(in.Locale)}
	if err == nil {
		err = f.recall(ctx, &v)
	}
	switch {
	case err != nil:
		f.storeProblem(w, err)
	case in.Identity != "":
		f.identified(ctx, w, v, in.Identity)
	case site.Settings.Enforce:
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "This site needs a signed identity."})
	default:
		f.anonymous(ctx, w, v)
	}
}

// locales matches language tags of RFC 5646 by their shape.
var locales = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}$`)

// localeOf returns s if it is a language tag, else "".
func localeOf(s string) string {
	if !locales.MatchString(s) {
		return ""
	}
	return s
}

// recall reads the contact that the kept token stands for.
func (f *Front) recall(ctx context.Context, v *visit) error {
	if v.token == "" {
		return nil
	}
	v.hash = auth.HashToken(v.token)
	c, err := f.store.Hot().ContactByToken(ctx, v.hash, f.o.Now())
	switch {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExpired):
		return nil
	case err == nil && c.Site == v.site.ID:
		v.kept = c
	}
	return err
}

// anonymous serves a visitor without a signed identity.
func (f *Front) anonymous(ctx context.Context, w http.ResponseWriter, v visit) {
	expires := f.o.Now().Add(f.o.VisitorLife)
	switch {
	case v.kept.ID == "":
	case v.kept.Verified: // somebody has logged out of the site on this browser
		if !f.forget(ctx, w, v) {
			return
		}
	case v.kept.Blocked:
		blocked(w)
		return
	default:
		err := f.store.ExtendVisitor(ctx, v.hash, expires)
		if err == nil && v.locale != "" && v.locale != v.kept.Locale {
			err = f.store.SetLocale(ctx, v.kept.ID, v.locale)
		}
		if err != nil {
			f.storeProblem(w, err)
			return
		}
		f.welcome(w, v, v.kept, v.token, false)
		return
	}
	if f.newVisitorRefused(w, v.ip, v.site.ID) {
		return
	}
	token, hash := auth.NewToken()
	c, err := f.store.CreateVisitor(ctx, v.site, hash, expires)
	if err == nil && v.locale != "" {
		err = f.store.SetLocale(ctx, c.ID, v.locale)
	}
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	f.Counters.Visitors.Add(1)
	f.welcome(w, v, c, token, true)
}

// identified serves a visitor whom the site's backend vouches for. The token lives as long as the identity does.
func (f *Front) identified(ctx context.Context, w http.ResponseWriter, v visit, identity string) {
	o := &v.site.Settings
	id, err := auth.CheckIdentity(identity, auth.IdentityRules{Audience: v.site.Key, Secrets: o.Secrets, Keys: o.Keys, Now: f.o.Now()})
	if err != nil {
		f.badIdentity(w, v, err)
		return
	}
	expires := f.o.Now().Add(f.o.VisitorLife)
	if id.Expires.Before(expires) {
		expires = id.Expires
	}
	p := store.Profile{External: id.Subject, Name: id.Name, Locale: id.Locale, Attributes: id.Attributes}
	if p.Locale == "" {
		p.Locale = v.locale
	}
	if v.kept.Verified { // the same customer, unless the token stands for another one
		c, err := f.store.IdentifyContact(ctx, v.site, p, v.hash, expires)
		if !errors.Is(err, store.ErrNotFound) {
			f.identifiedAs(w, v, c, v.token, false, err)
			return
		}
		if !f.forget(ctx, w, v) {
			return
		}
	}
	token, hash := auth.NewToken()
	c, err := f.store.IdentifyContact(ctx, v.site, p, hash, expires)
	f.identifiedAs(w, v, c, token, true, err)
}

// identifiedAs answers a visitor with a signed identity.
func (f *Front) identifiedAs(w http.ResponseWriter, v visit, c store.Contact, token string, fresh bool, err error) {
	switch {
	case errors.Is(err, store.ErrBlocked):
		blocked(w)
	case err != nil:
		f.storeProblem(w, err)
	default:
		f.welcome(w, v, c, token, fresh)
	}
}

// badIdentity refuses a signed identity. What its signer can mend is told, to the signer's page and to the operator.
func (f *Front) badIdentity(w http.ResponseWriter, v visit, err error) {
	f.Counters.IdentitiesBad.Add(1)
	level, code, text := slog.LevelDebug, proto.CodeUnauthorized, "The signed identity is not valid."
	claim, ok := errors.AsType[*auth.ClaimError](err)
	switch {
	case errors.Is(err, auth.ErrIdentityExpired):
		code = proto.CodeTokenExpired
	case ok:
		text = "The signed identity is not valid: " + claim.Text + "."
		if f.denials.Allow("identity "+v.site.Key, f.o.Now()) {
			level = slog.LevelWarn
		}
	}
	f.o.Logger.Log(context.Background(), level, "desk: identity refused", "site", v.site.Key, "err", err)
	problem(w, http.StatusUnauthorized, &proto.Error{Code: code, Text: text})
}

// forget ends the kept token, and so its connections, because another person uses the browser now. false means that the
// answer has been given.
func (f *Front) forget(ctx context.Context, w http.ResponseWriter, v visit) bool {
	if err := f.store.DropVisitor(ctx, v.hash); err != nil && !errors.Is(err, store.ErrNotFound) {
		f.storeProblem(w, err)
		return false
	}
	return true
}

func (f *Front) welcome(w http.ResponseWriter, v visit, c store.Contact, token string, fresh bool) {
	answer(w, visitorInfo{Token: token, New: fresh, Contact: c.ID, Verified: c.Verified, Name: c.Name, Site: f.infoOf(v.site)})
}

func (f *Front) tooManyVisitors(w http.ResponseWriter, wait time.Duration) {
	f.Counters.VisitorsRefused.Add(1)
	tooFast(w, "Too many new visitors. Try again in a moment.", wait)
}
