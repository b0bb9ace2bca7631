package admin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const (
	cookieName  = "eddy_admin"
	sessionLife = 12 * time.Hour
	// policy is the Content-Security-Policy, which lets the pages use only resources of this server.
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// guard decides which requests are allowed.
type guard struct {
	token  *[sha256.Size]byte // hash of the token, nil = none is needed
	key    [32]byte           // signs sessions, which end with the process
	hosts  map[string]bool
	tries  *tries
	origin *http.CrossOriginProtection
	now    func() time.Time
}

// newGuard checks Addr, Token and Hosts and makes a guard of them.
func newGuard(o Options) (*guard, error) {
	host, port, err := net.SplitHostPort(o.Addr)
	if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || n < 0 || n > 65535 {
		return nil, fmt.Errorf("admin: Options.Addr is %q: write host:port with a port from 0 to 65535, such as 127.0.0.1:7070", o.Addr)
	}
	g := &guard{hosts: map[string]bool{"localhost": true}, tries: newTries(), origin: http.NewCrossOriginProtection(), now: time.Now}
	if err := g.setToken(o.Token); err != nil {
		return nil, err
	}
	if g.token == nil && !loopback(host) {
		return nil, fmt.Errorf("admin: Options.Addr is %q, which is not loopback: this needs a Token of at least %d characters", o.Addr, minToken)
	}
	for _, h := range append(o.Hosts, host) {
		if strings.ContainsAny(h, "/:@ ") && net.ParseIP(h) == nil {
			return nil, fmt.Errorf("admin: Options.Hosts has %q: write a name without a port", h)
		}
		if h != "" {
			g.hosts[strings.ToLower(h)] = true
		}
	}
	_, err = rand.Read(g.key[:])
	return g, err
}

func (g *guard) setToken(token string) error {
	if token == "" {
		return nil
	}
	if len(token) < minToken || len(token) > maxToken {
		return fmt.Errorf("admin: Options.Token has %d characters, want %d to %d", len(token), minToken, maxToken)
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return fmt.Errorf("admin: character %d of Options.Token is not printable ASCII", i+1)
		}
	}
	sum := sha256.Sum256([]byte(token))
	g.token = &sum
	return nil
}

// loopback reports whether host can be reached from this machine only.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost"
}

// around returns h behind the rules.
func (g *guard) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		if !g.knowsHost(r.Host) {
			fail(w, http.StatusMisdirectedRequest, "Host is not an IP address, localhost or a name that this server was given")
			return
		}
		who, status, err := g.identify(r)
		if err != nil {
			g.refuse(w, r, status, err)
			return
		}
		if err := g.mayChange(r, who); err != nil {
			fail(w, http.StatusForbidden, err.Error())
			return
		}
		h.ServeHTTP(w, r)
	})
}

// knowsHost reports whether the Host of a request is an IP address or a known name. A page of a foreign name that was made
// to resolve to this machine ("DNS rebinding") is kept out.
func (g *guard) knowsHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return g.hosts[strings.ToLower(host)]
}

// proof is the kind of proof that a request carries.
type proof uint8

const (
	nothing proof = iota // none, and none is needed
	session              // the login's cookie
	bearer               // the token itself
)

var (
	errNoToken = errors.New("this needs the token: send it as \"Authorization: Bearer TOKEN\", or log in on the page")
	errToken   = errors.New("the token is wrong")
)

// isOpen reports whether a path needs no token: the probes, and the login page with its style.
func isOpen(path string) bool {
	switch path {
	case "/healthz", "/readyz", "/login", "/admin.css":
		return true
	}
	return false
}

// identify returns the proof that a request carries, or the status and error that refuse the request.
func (g *guard) identify(r *http.Request) (proof, int, error) {
	if g.token == nil {
		return nothing, 0, nil
	}
	if given := r.Header.Get("Authorization"); given != "" {
		token, _ := strings.CutPrefix(given, "Bearer ")
		if status, err := g.try(r, token); err != nil {
			return nothing, status, err
		}
		return bearer, 0, nil
	}
	if c, err := r.Cookie(cookieName); err == nil && g.verify(c.Value) {
		return session, 0, nil
	}
	if isOpen(r.URL.Path) {
		return nothing, 0, nil
	}
	return nothing, http.StatusUnauthorized, errNoToken
}

// try compares a token. After too many wrong tokens from the client's network it refuses without comparing.
func (g *guard) try(r *http.Request, token string) (int, error) {
	now := g.now()
	if wait := g.tries.wait(now, r.RemoteAddr); wait > 0 {
		return http.StatusTooManyRequests, fmt.Errorf("more than %d wrong tokens came from this network within %v: try again in %v", maxTries, triesWindow, wait.Round(time.Second))
	}
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], g.token[:]) != 1 {
		g.tries.failed(now, r.RemoteAddr)
		return http.StatusUnauthorized, errToken
	}
	return 0, nil
}

// refuse answers a request that identify has refused.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	if status == http.StatusUnauthorized {
		if r.URL.Path == "/" && r.Method == http.MethodGet && r.Header.Get("Authorization") == "" {
			http.Redirect(w, r, "/login", http.StatusSeeOther)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="eddy admin"`)
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(int(triesWindow.Seconds())))
	}
	fail(w, status, err.Error())
}

var errOrigin = errors.New("a change needs the token, or has to come from a page of this server")

// mayChange refuses changes that come from a page of another site. A browser names the site. Other clients send the token,
// or need none because the server listens on loopback.
func (g *guard) mayChange(r *http.Request, who proof) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || who == bearer {
		return nil
	}
	silent := r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == ""
	if g.origin.Check(r) != nil || silent && who == session {
		return errOrigin
	}
	return nil
}

// newSession returns the value of a cookie that is valid for sessionLife.
func (g *guard) newSession() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(g.now().Add(sessionLife).Unix()))
	return base64.RawURLEncoding.EncodeToString(append(b, g.sign(b)...))
}

func (g *guard) sign(b []byte) []byte {
	mac := hmac.New(sha256.New, g.key[:])
	mac.Write(b)
	return mac.Sum(nil)
}

// verify reports whether newSession made the value and it has not expired.
func (g *guard) verify(value string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil || len(b) != 8+sha256.Size || !hmac.Equal(b[8:], g.sign(b[:8])) {
		return false
	}
	return g.now().Unix() < int64(binary.BigEndian.Uint64(b))
}

// cookie returns the session's cookie. An empty value ends the session in the browser.
func cookie(value string) *http.Cookie {
	c := &http.Cookie{Name: cookieName, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLife.Seconds())}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// trusts reports whether an admitted request may see everything: it carries a proof, or none is needed.
func (g *guard) trusts(r *http.Request) bool {
	if g.token == nil {
		return true
	}
	who, _, err := g.identify(r)
	return err == nil && who != nothing
}
