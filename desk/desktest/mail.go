package desktest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// Login and password that a MailServer accepts, and demands before it takes a mail.
const (
	MailLogin    = "desk"
	MailPassword = "a password of mail"
)

// Received is a mail that a MailServer has taken.
type Received struct {
	From, To string // of the envelope
	Header   mail.Header
	Subject  string // decoded
	Body     string // decoded, with \n
}

// MailServer is somebody else's mail server on a port of the loopback interface. With TLS it takes mails only over TLS and
// after a login.
type MailServer struct {
	Addr  string
	Roots *x509.CertPool // with its certificate

	secure bool
	mu     sync.Mutex
	mails  []Received
	refuse map[string]error // by stage: mail, rcpt, data
	begun  int
}

// NewMailServer starts a server that ends with the test: mode is starttls, implicit or none.
func NewMailServer(t testing.TB, mode string) *MailServer {
	t.Helper()
	cert, err := tlsx.SelfSigned("127.0.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	m := &MailServer{Roots: x509.NewCertPool(), secure: mode != "none", refuse: make(map[string]error)}
	m.Roots.AddCert(cert.Leaf)
	s := smtp.NewServer(m)
	s.Domain, s.MaxMessageBytes, s.MaxRecipients, s.ErrorLog = "mail.example", 1<<20, 10, log.New(io.Discard, "", 0)
	config := &tls.Config{Certificates: []tls.Certificate{cert}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	switch mode {
	case "starttls":
		s.TLSConfig = config
	case "implicit":
		l = tls.NewListener(l, config)
	}
	m.Addr = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		err := s.Close()
		_ = l.Close() // the server may not know it yet
		if err := errors.Join(err, testkit.Receive(t, "the end of the mail server", ended)); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Refuse makes the server refuse one stage of every mail from now on: mail, rcpt or data. Code 0 takes them again.
func (m *MailServer) Refuse(stage string, code int, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if code == 0 {
		delete(m.refuse, stage)
		return
	}
	m.refuse[stage] = &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 7, 1}, Message: text}
}

// Mails returns the mails that were taken.
func (m *MailServer) Mails() []Received {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mails)
}

// Begun returns how many mails were begun.
func (m *MailServer) Begun() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun
}

// Await waits until so many mails were taken and returns them.
func (m *MailServer) Await(t testing.TB, n int) (all []Received) {
	t.Helper()
	testkit.Eventually(t, "mails at the mail server", func() bool {
		all = m.Mails()
		return len(all) >= n
	})
	return all
}

func (m *MailServer) stage(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "mail" {
		m.begun++
	}
	return m.refuse[name]
}

// NewSession implements smtp.Backend.
func (m *MailServer) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &mailSession{server: m, conn: c}, nil
}

// mailSession is one connection.
type mailSession struct {
	server   *MailServer
	conn     *smtp.Conn
	loggedIn bool
	got      Received
}

// AuthMechanisms implements smtp.AuthSession.
func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth implements smtp.AuthSession.
func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, login, password string) error {
		if login != MailLogin || password != MailPassword {
			return smtp.ErrAuthFailed
		}
		s.loggedIn = true
		return nil
	}), nil
}

// Mail implements smtp.Session.
func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if _, encrypted := s.conn.TLSConnectionState(); s.server.secure && !(encrypted && s.loggedIn) {
		return smtp.ErrAuthRequired
	}
	s.got = Received{From: from}
	return s.server.stage("mail")
}

// Rcpt implements smtp.Session.
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.got.To = to
	return s.server.stage("rcpt")
}

// Data implements smtp.Session.
func (s *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.server.stage("data"); err != nil {
		return err
	}
	m, err := mail.ReadMessage(strings.NewReader(string(raw)))
	if err != nil {
		return err
	}
	s.got.Header = m.Header
	if s.got.Subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		return err
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		return err
	}
	s.got.Body = strings.ReplaceAll(string(body), "\r\n", "\n")
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.mails = append(s.server.mails, s.got)
	return nil
}

// Reset implements smtp.Session.
func (s *mailSession) Reset() { s.got = Received{} }

// Logout implements smtp.Session.
func (s *mailSession) Logout() error { return nil }
