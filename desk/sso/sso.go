package sso

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Errors of a login.
var (
	// ErrUnavailable means that the provider has not answered, or not as it must.
	ErrUnavailable = errors.New("sso: the provider does not answer")
	// ErrRefused means that what the provider or the browser brought proves nobody.
	ErrRefused = errors.New("sso: the answer of the provider is not valid")
)

// Options configure a Provider. Issuer, ClientID, Redirect, Logger and Now are required.
type Options struct {
	Issuer   string // address of the provider, as it names itself
	ClientID string
	Secret   string // of the client; "" for a public client
	Redirect string // address of the page to which the provider sends browsers back
	Scopes   []string
	Claim    string // holds the names by which the caller chooses a role, "" = none; a path such as realm_access.roles
	Timeout  time.Duration

	Transport http.RoundTripper // default http.DefaultTransport's settings
	Logger    *slog.Logger
	Now       func() time.Time

	after func(time.Duration) <-chan time.Time // default time.After
}

// Limits of what a provider may send.
const (
	maxAnswer  = 1 << 20         // bytes
	maxSubject = 255             // bytes, as OpenID Connect Core 2 says
	maxClaim   = 200             // names in Options.Claim
	clockSkew  = 5 * time.Minute // by which a token may seem to come from the future
	firstPause = time.Second
	mostPause  = time.Minute
)

// DefaultTimeout bounds one call of the provider.
const DefaultTimeout = 5 * time.Second

// Provider is one OpenID Connect provider. Any goroutine may call its methods.
type Provider struct {
	o      Options
	client *http.Client
	stop   context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	known *discovered // nil until the provider has answered
	err   error       // of the last attempt
}

// discovered is what a provider has said of itself.
type discovered struct {
	*oidc.Provider
	config *oauth2.Config
	verify *oidc.IDTokenVerifier
}

// Flow is one login under way. The browser keeps it, sealed, until it comes back.
type Flow struct {
	State, Nonce, Verifier string
}

// Person is who has logged in. Text of the provider is cut to what an account may hold by the caller.
type Person struct {
	Issuer, Subject string
	Email           string // "" unless the provider has verified it
	Login, Name     string // suggestions
	Groups          []string
}

// Check reports options that cannot work.
func (o *Options) Check() error {
	u, err := url.Parse(o.Issuer)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("the issuer is %q: give its address, such as https://login.example", o.Issuer)
	case u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())):
		return fmt.Errorf("the issuer is %q: give an https address; http is for this machine alone", o.Issuer)
	case o.ClientID == "":
		return errors.New("the client id is empty: give the one that the provider knows Desk by")
	case o.Redirect == "":
		return errors.New("the address of Desk is not known: give --public-url, to which the provider sends browsers back")
	}
	return nil
}

func isLoopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// Open returns a provider and begins to discover it in the background, again and again until it answers. Close it.
func Open(o Options) (*Provider, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("sso: %w", err)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	if o.after == nil {
		o.after = time.After
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Provider{o: o, stop: stop, done: make(chan struct{}), err: ErrUnavailable}
	p.client = &http.Client{Transport: bounded{o.Transport}, Timeout: o.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	go p.discover(ctx)
	return p, nil
}

// Close ends the discovery and the idle connections.
func (p *Provider) Close() {
	p.stop()
	<-p.done
	p.client.CloseIdleConnections()
}

// Ready returns nil once the provider has been discovered, else why not.
func (p *Provider) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Provider) discover(ctx context.Context) {
	defer close(p.done)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := p.look(ctx)
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		if err == nil {
			p.o.Logger.Info("desk: single sign-on is ready", "issuer", p.o.Issuer)
			return
		}
		if ctx.Err() != nil {
			return
		}
		p.o.Logger.Warn("desk: the provider of the single sign-on cannot be discovered; passwords work", "issuer", p.o.Issuer, "again", pause, "err", err)
		select {
		case <-p.o.after(pause):
		case <-ctx.Done():
			return
		}
	}
}

// look reads the provider's description of itself.
func (p *Provider) look(ctx context.Context) error {
	ctx = p.within(ctx)
	found, err := oidc.NewProvider(ctx, p.o.Issuer)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrUnavailable, short(err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = &discovered{
		Provider: found,
		config: &oauth2.Config{
			ClientID: p.o.ClientID, ClientSecret: p.o.Secret, Endpoint: found.Endpoint(), RedirectURL: p.o.Redirect, Scopes: append([]string{oidc.ScopeOpenID}, p.o.Scopes...),
		},
		verify: found.VerifierContext(p.within(context.Background()), &oidc.Config{ClientID: p.o.ClientID, Now: p.o.Now}),
	}
	return nil
}

// within makes calls below ctx use the bounded client.
func (p *Provider) within(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

func (p *Provider) found() (*discovered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		return nil, p.err
	}
	return p.known, nil
}

// Begin returns the address to send a browser to, and what has to be known when it comes back. It asks nobody.
func (p *Provider) Begin() (address string, f Flow, err error) {
	known, err := p.found()
	if err != nil {
		return "", f, err
	}
	f = Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return known.config.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), f, nil
}

// Finish turns the code that a browser has brought back into the person. It blocks for at most a few times
// Options.Timeout and honours ctx. Errors are ErrUnavailable and ErrRefused, with what happened for the log.
func (p *Provider) Finish(ctx context.Context, f Flow, state, code string) (Person, error) {
	known, err := p.found()
	if err != nil {
		return Person{}, err
	}
	if f.State == "" || subtle.ConstantTimeCompare([]byte(f.State), []byte(state)) != 1 {
		return Person{}, fmt.Errorf("%w: the state is not that of this browser", ErrRefused)
	}
	ctx = p.within(ctx)
	token, err := known.config.Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return Person{}, exchangeError(err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Person{}, fmt.Errorf("%w: there is no id_token", ErrRefused)
	}
	id, err := known.verify.Verify(ctx, raw)
	if err != nil {
		return Person{}, fmt.Errorf("%w: %s", ErrRefused, short(err))
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return Person{}, fmt.Errorf("%w: %s", ErrRefused, short(err))
	}
	if err := p.check(id, claims, f.Nonce); err != nil {
		return Person{}, err
	}
	if claims["email"] == nil && known.UserInfoEndpoint() != "" {
		if err := complete(ctx, known, token, id.Subject, claims); err != nil {
			return Person{}, err
		}
	}
	return p.person(id.Subject, claims), nil
}

// complete adds the claims that a provider tells only by its userinfo endpoint, as OpenID Connect Core 5.4 allows.
func complete(ctx context.Context, known *discovered, token *oauth2.Token, subject string, claims map[string]any) error {
	info, err := known.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return fmt.Errorf("%w: %s", ErrUnavailable, short(err))
	}
	var more map[string]any
	if err := info.Claims(&more); err != nil {
		return fmt.Errorf("%w: %s", ErrRefused, short(err))
	}
	if info.Subject != subject {
		return fmt.Errorf("%w: the userinfo is of another subject", ErrRefused)
	}
	for name, v := range more {
		if _, have := claims[name]; !have {
			claims[name] = v
		}
	}
	return nil
}

// exchangeError tells a provider that refuses a code from one that does not work.
func exchangeError(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < 500 {
		return fmt.Errorf("%w: the code was refused: %s, status %d", ErrRefused, short(errors.New(refused.ErrorCode)), refused.Response.StatusCode)
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, short(err))
}

// short returns the text of an error, which may hold a whole answer of the provider, as a line of a log may have it.
func short(err error) string {
	text := strings.ToValidUTF8(err.Error(), "?")
	return fmt.Sprintf("%.300q", text)
}

// check looks at what the verifier leaves: the token is for this login and this client, and names somebody.
func (p *Provider) check(id *oidc.IDToken, claims map[string]any, nonce string) error {
	party, named := claims["azp"]
	switch {
	case nonce == "" || subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1:
		return fmt.Errorf("%w: the nonce is another one", ErrRefused)
	case id.Subject == "" || len(id.Subject) > maxSubject:
		return fmt.Errorf("%w: the subject has %d bytes, 1 to %d are possible", ErrRefused, len(id.Subject), maxSubject)
	case id.IssuedAt.After(p.o.Now().Add(clockSkew)):
		return fmt.Errorf("%w: it is issued at %s, more than %v from now: is the clock right?", ErrRefused, id.IssuedAt.UTC().Format(time.RFC3339), clockSkew)
	case named && party != p.o.ClientID, !named && len(id.Audience) > 1:
		return fmt.Errorf("%w: it was issued to another party", ErrRefused)
	}
	return nil
}

// person reads the claims of somebody who is proved.
func (p *Provider) person(subject string, claims map[string]any) Person {
	text := func(name string) string {
		s, _ := claims[name].(string)
		return s
	}
	who := Person{Issuer: p.o.Issuer, Subject: subject, Login: text("preferred_username"), Name: text("name"), Groups: names(claims, p.o.Claim)}
	if verified := claims["email_verified"]; verified == true || verified == "true" { // some providers write a text
		who.Email = strings.ToLower(strings.TrimSpace(text("email")))
	}
	return who
}

// names returns the texts that a claim holds. A dot in the claim's name leads into an object, unless a claim has the
// whole name.
func names(claims map[string]any, claim string) []string {
	if claim == "" {
		return nil
	}
	v, ok := claims[claim]
	if !ok {
		outer, inner, nested := strings.Cut(claim, ".")
		object, isObject := claims[outer].(map[string]any)
		if nested && isObject {
			return names(object, inner)
		}
		return nil
	}
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, e := range v[:min(len(v), maxClaim)] {
			if s, ok := e.(string); ok && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
		return all
	}
	return nil
}
