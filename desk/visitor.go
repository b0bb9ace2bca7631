package desk

import (
	"context"
	"errors"
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
	Greeting string        `json:"greeting,omitempty"`
	Consent  string        `json:"consent,omitempty"`
	PreChat  []store.Field `json:"prechat,omitempty"`
	Rate     bool          `json:"rate,omitempty"` // ask for a score at the end
}

func infoOf(s store.Site) siteInfo {
	o := &s.Settings
	return siteInfo{Key: s.Key, Name: s.Name, Color: o.Color, Greeting: o.Greeting, Consent: o.Consent, PreChat: o.PreChat, Rate: o.RateChat}
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
func (d *Desk) widgetSession(w http.ResponseWriter, r *http.Request) {
	var in struct{ Site, Token, Identity, Locale string }
	if !decode(w, r, &in) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.o.within(requestTimeout))
	defer cancel()
	site, err := d.store.Hot().SiteByKey(ctx, in.Site)
	if errors.Is(err, store.ErrNotFound) {
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such site."})
		return
	}
	if err == nil && !allows(&site, foreign(r)) {
		d.wrongOrigin(w)
		return
	}
	v := visit{site: site, ip: d.address(r), token: in.Token, locale: localeOf(in.Locale)}
	if err == nil {
		err = d.recall(ctx, &v)
	}
	switch {
	case err != nil:
		d.storeProblem(w, err)
	case in.Identity != "":
		d.identified(ctx, w, v, in.Identity)
	case site.Settings.Enforce:
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "This site needs a signed identity."})
	default:
		d.anonymous(ctx, w, v)
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
func (d *Desk) recall(ctx context.Context, v *visit) error {
	if v.token == "" {
		return nil
	}
	v.hash = auth.HashToken(v.token)
	c, err := d.store.Hot().ContactByToken(ctx, v.hash, d.o.Now())
	switch {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExpired):
		return nil
	case err == nil && c.Site == v.site.ID:
		v.kept = c
	}
	return err
}

// anonymous serves a visitor without a signed identity.
func (d *Desk) anonymous(ctx context.Context, w http.ResponseWriter, v visit) {
	expires := d.o.Now().Add(d.o.VisitorLife)
	switch {
	case v.kept.ID == "":
	case v.kept.Verified: // somebody has logged out of the site on this browser
		if !d.forget(ctx, w, v) {
			return
		}
	case v.kept.Blocked:
		blocked(w)
		return
	default:
		err := d.store.ExtendVisitor(ctx, v.hash, expires)
		if err == nil && v.locale != "" && v.locale != v.kept.Locale {
			err = d.store.SetLocale(ctx, v.kept.ID, v.locale)
		}
		if err != nil {
			d.storeProblem(w, err)
			return
		}
		d.welcome(w, v, v.kept, v.token, false)
		return
	}
	if d.newVisitorRefused(w, v.ip, v.site.ID) {
		return
	}
	token, hash := auth.NewToken()
	c, err := d.store.CreateVisitor(ctx, v.site, hash, expires)
	if err == nil && v.locale != "" {
		err = d.store.SetLocale(ctx, c.ID, v.locale)
	}
	if err != nil {
		d.storeProblem(w, err)
		return
	}
	d.counters.visitors.Add(1)
	d.welcome(w, v, c, token, true)
}

// identified serves a visitor whom the site's backend vouches for. The token lives as long as the identity does.
func (d *Desk) identified(ctx context.Context, w http.ResponseWriter, v visit, identity string) {
	o := &v.site.Settings
	id, err := auth.CheckIdentity(identity, auth.IdentityRules{Audience: v.site.Key, Secrets: o.Secrets, Keys: o.Keys, Now: d.o.Now()})
	if err != nil {
		d.counters.identitiesRefused.Add(1)
		d.o.Logger.Debug("desk: identity refused", "site", v.site.Key, "err", err)
		code := proto.CodeUnauthorized
		if errors.Is(err, auth.ErrIdentityExpired) {
			code = proto.CodeTokenExpired
		}
		problem(w, http.StatusUnauthorized, &proto.Error{Code: code, Text: "The signed identity is not valid."})
		return
	}
	token, hash, same := v.token, v.hash, v.kept.Verified && v.kept.External == id.Subject
	if !same {
		if v.kept.Verified && !d.forget(ctx, w, v) {
			return
		}
		token, hash = auth.NewToken()
	}
	expires := d.o.Now().Add(d.o.VisitorLife)
	if id.Expires.Before(expires) {
		expires = id.Expires
	}
	p := store.Profile{External: id.Subject, Name: id.Name, Locale: id.Locale, Attributes: id.Attributes}
	if p.Locale == "" {
		p.Locale = v.locale
	}
	c, err := d.store.IdentifyContact(ctx, v.site, p, hash, expires)
	switch {
	case errors.Is(err, store.ErrBlocked):
		blocked(w)
	case err != nil:
		d.storeProblem(w, err)
	default:
		d.hub.Rename(c.ID, c.Name)
		d.welcome(w, v, c, token, !same)
	}
}

// forget ends the kept token and its connections, because another person uses the browser now. false means that the
// answer has been given.
func (d *Desk) forget(ctx context.Context, w http.ResponseWriter, v visit) bool {
	if err := d.store.DropVisitor(ctx, v.hash); err != nil && !errors.Is(err, store.ErrNotFound) {
		d.storeProblem(w, err)
		return false
	}
	d.hub.CloseLogin(v.hash)
	return true
}

func (d *Desk) welcome(w http.ResponseWriter, v visit, c store.Contact, token string, fresh bool) {
	answer(w, visitorInfo{Token: token, New: fresh, Contact: c.ID, Verified: c.Verified, Name: c.Name, Site: infoOf(v.site)})
}

func (d *Desk) tooManyVisitors(w http.ResponseWriter, wait time.Duration) {
	d.counters.visitorsRefused.Add(1)
	problem(w, http.StatusTooManyRequests, &proto.Error{Code: proto.CodeRateLimited, Text: "Too many new visitors. Try again in a moment.", RetryMS: max(1, wait.Milliseconds())})
}
