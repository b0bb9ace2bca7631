// Package pushtest is the other end of package push: a push service and the browsers behind it, made from RFC 8030, RFC
// 8188, RFC 8291 and RFC 8292.
package pushtest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Browser has subscribed to a Service.
type Browser struct {
	Endpoint string
	Auth     []byte
	key      *ecdh.PrivateKey
}

// Key returns the public key that a subscription has.
func (b *Browser) Key() []byte { return b.key.PublicKey().Bytes() }

const (
	saltBytes   = 16
	headerBytes = saltBytes + 4 + 1 // up to the public key of the sender
)

// Open decrypts a message to the browser.
func (b *Browser) Open(body []byte) (string, error) {
	if len(body) < headerBytes || len(body) < headerBytes+int(body[headerBytes-1]) {
		return "", fmt.Errorf("%d bytes are no message", len(body))
	}
	salt, size := body[:saltBytes], binary.BigEndian.Uint32(body[saltBytes:])
	sender, sealed := body[headerBytes:headerBytes+int(body[headerBytes-1])], body[headerBytes+int(body[headerBytes-1]):]
	if len(sealed) > int(size) {
		return "", fmt.Errorf("a record of %d bytes, and %d bytes", size, len(sealed))
	}
	other, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return "", err
	}
	shared, err := b.key.ECDH(other)
	if err != nil {
		return "", err
	}
	secret, err := hkdf.Key(sha256.New, shared, b.Auth, "WebPush: info\x00"+string(b.Key())+string(sender), sha256.Size)
	if err != nil {
		return "", err
	}
	key, err := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: aes128gcm\x00", aes.BlockSize)
	if err != nil {
		return "", err
	}
	nonce, err := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return "", err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return "", err
	}
	plain, err := gcm.Open(nil, nonce, sealed, nil)
	if err != nil {
		return "", err
	}
	text, last := strings.CutSuffix(strings.TrimRight(string(plain), "\x00"), "\x02")
	if !last {
		return "", errors.New("this is not the last record")
	}
	return text, nil
}

// Call is a message that a browser has got.
type Call struct {
	Name   string // of the browser
	Text   string
	Bytes  int // of the body
	Header http.Header
	Key    string // of the sender, in base64url
}

// Service is a push service. Any goroutine may call its methods.
type Service struct {
	URL string
	TLS *tls.Config // with which it is reached, once it listens

	t        testing.TB
	mu       sync.Mutex
	browsers map[string]*Browser
	calls    []Call
	asked    int
	answer   func(name string) (status int, retryAfter string)
}

// New returns a Service that takes every message, and that requests reach by ServeHTTP only.
func New(t testing.TB) *Service {
	return &Service{URL: "https://push.example", t: t, browsers: make(map[string]*Browser), answer: func(string) (int, string) { return http.StatusCreated, "" }}
}

// Listen makes the service answer at an address of this machine until the end of the test. Call it before Subscribe.
func (s *Service) Listen() {
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	s.t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s.URL, s.TLS = server.URL, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// Subscribe returns a browser with a name of its own.
func (s *Service) Subscribe(name string) *Browser {
	s.t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	b := &Browser{Endpoint: s.URL + "/" + name, Auth: make([]byte, 16), key: key}
	_, _ = rand.Read(b.Auth) // never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	s.browsers[name] = b
	return b
}

// Answer sets how messages to a browser are answered. Only those with a status of 200 to 299 are delivered.
func (s *Service) Answer(f func(name string) (status int, retryAfter string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Calls returns what browsers have got.
func (s *Service) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Asked returns the number of requests.
func (s *Service) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// ServeHTTP implements http.Handler. A request that is not as the RFCs say fails the test.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	b, answer := s.browsers[name], s.answer
	s.asked++
	s.mu.Unlock()
	c := Call{Name: name, Bytes: len(body), Header: r.Header}
	if err == nil {
		c.Key, err = s.sender(r)
	}
	if err == nil && b == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if err == nil {
		c.Text, err = b.Open(body)
	}
	if _, ttl := strconv.ParseUint(r.Header.Get("TTL"), 10, 31); err == nil && (r.Method != http.MethodPost || ttl != nil || r.Header.Get("Content-Encoding") != "aes128gcm" || len(body) > 4096) {
		err = fmt.Errorf("%s with %d bytes and %v", r.Method, len(body), r.Header)
	}
	if err != nil {
		s.t.Errorf("a message to %s: %v", name, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	status, later := answer(name)
	if later != "" {
		w.Header().Set("Retry-After", later)
	}
	if status/100 == 2 {
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.mu.Unlock()
	}
	w.WriteHeader(status)
}

// sender checks who has sent a request (RFC 8292), and returns the public key.
func (s *Service) sender(r *http.Request) (string, error) {
	var token, key string
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	for part := range strings.SplitSeq(rest, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			token = value
		case "k":
			key = value
		}
	}
	point, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil || scheme != "vapid" {
		return "", fmt.Errorf("authorization %q: %w", scheme, err)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return "", err
	}
	claims := jwt.RegisteredClaims{}
	_, err = jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return public, nil },
		jwt.WithValidMethods([]string{"ES256"}), jwt.WithAudience(s.URL), jwt.WithExpirationRequired())
	if err == nil && (time.Until(claims.ExpiresAt.Time) > 24*time.Hour || !strings.HasPrefix(claims.Subject, "https://") && !strings.HasPrefix(claims.Subject, "mailto:")) {
		err = fmt.Errorf("it counts until %v, for %q", claims.ExpiresAt, claims.Subject)
	}
	return key, err
}
