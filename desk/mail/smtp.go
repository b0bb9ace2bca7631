package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"

	"github.com/go-eddy/eddy/desk/store"
)

// Letter is a mail with its text. Both are plain.
type Letter struct {
	ID      string // the same for every attempt, so that the receiver can drop a second copy
	To      string // one address
	Subject string // one line
	Body    string
	Date    time.Time
}

// Limits of a letter.
const (
	MaxSubject = 200       // characters
	MaxBody    = 256 << 10 // bytes
)

// check refuses what could become another header, and what is too large.
func (l *Letter) check() error {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	switch {
	case !store.ValidEmail(l.To):
		return errors.New("mail: the address is not one")
	case l.ID == "" || strings.ContainsFunc(l.ID, func(r rune) bool { return r <= ' ' || r > '~' || r == '<' || r == '>' || r == '@' }):
		return errors.New("mail: the id is not one")
	case l.Subject == "" || utf8.RuneCountInString(l.Subject) > MaxSubject || !utf8.ValidString(l.Subject) || strings.ContainsFunc(l.Subject, unicode.IsControl):
		return fmt.Errorf("mail: the subject is not one line of at most %d characters", MaxSubject)
	case len(l.Body) > MaxBody || !utf8.ValidString(l.Body) || strings.ContainsFunc(l.Body, control):
		return fmt.Errorf("mail: the text is not plain text of at most %d bytes", MaxBody)
	}
	return nil
}

// Failure says why a letter was not taken.
type Failure struct {
	Err       error
	Code      int  // the server's reply to this letter, 0 = none
	Permanent bool // this letter will never be taken
	Server    bool // it is about the server or the way to it, and not about this letter
}

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// SMTP gives letters to one mail server.
type SMTP struct {
	s             Settings
	from, replyTo *netmail.Address
	domain        string // of From
	dial          func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewSMTP returns a sender for settings that are on. The error is that of Settings.Check.
func NewSMTP(s Settings) (*SMTP, error) {
	s.Fill()
	if err := s.Check(); err != nil {
		return nil, err
	}
	m := &SMTP{s: s, dial: new(net.Dialer).DialContext}
	var err error
	if m.from, err = sender(s.From); err != nil {
		return nil, err
	}
	if s.ReplyTo != "" {
		if m.replyTo, err = sender(s.ReplyTo); err != nil {
			return nil, err
		}
	}
	_, m.domain, _ = strings.Cut(m.from.Address, "@")
	return m, nil
}

// Send gives one letter to the server over a connection of its own. It blocks for at most Settings.Timeout, and until ctx
// ends. The error is a *Failure.
func (m *SMTP) Send(ctx context.Context, l Letter) error {
	msg, err := m.message(&l)
	if err != nil {
		return &Failure{Err: err, Permanent: true}
	}
	ctx, cancel := context.WithTimeout(ctx, m.s.Timeout)
	defer cancel()
	var conns connections
	defer conns.close()
	defer context.AfterFunc(ctx, conns.close)()
	client, err := m.client(&conns)
	if err != nil {
		return &Failure{Err: err, Server: true}
	}
	server, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return &Failure{Err: err, Server: true}
	}
	err = client.SendWithSMTPClient(server, msg)
	if msg.IsDelivered() {
		_ = server.Quit() // the server has the letter, whatever it says now
		return nil
	}
	return refusal(err)
}

// refusal tells a letter that is refused from a server that fails. A refused sender is a matter of the settings, and so
// counts as the server's.
func refusal(err error) error {
	f := &Failure{Err: err, Server: true}
	const leaving = 421 // the server closes the connection
	sent, ok := errors.AsType[*gomail.SendError](err)
	if ok && sent.Reason != gomail.ErrConnCheck {
		f.Code = sent.ErrorCode()
		f.Server = f.Code == 0 || f.Code == leaving || sent.Reason == gomail.ErrSMTPMailFrom
	}
	f.Permanent = !f.Server && f.Code >= 500
	return f
}

// client makes a client for one connection.
func (m *SMTP) client(conns *connections) (*gomail.Client, error) {
	host, port, err := m.s.hostPort()
	if err != nil {
		return nil, err
	}
	secure := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: m.s.Roots}
	policy := map[TLSMode]gomail.TLSPolicy{StartTLS: gomail.TLSMandatory, Implicit: gomail.TLSOpportunistic, NoTLS: gomail.NoTLS}[m.s.TLS]
	options := []gomail.Option{
		gomail.WithPort(port), gomail.WithTLSPolicy(policy), gomail.WithTLSConfig(secure), gomail.WithTimeout(m.s.Timeout / 2), gomail.WithHELO(m.domain),
		gomail.WithDialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := m.dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			conns.add(conn)
			if m.s.TLS != Implicit {
				return conn, nil
			}
			encrypted := tls.Client(conn, secure)
			return encrypted, encrypted.HandshakeContext(ctx)
		}),
	}
	if m.s.Login != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(m.s.Login), gomail.WithPassword(m.s.Password))
	}
	return gomail.NewClient(host, options...)
}

// message makes what is sent.
func (m *SMTP) message(l *Letter) (*gomail.Msg, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(m.from)
	msg.EnvelopeFromMailAddress(&netmail.Address{Address: m.from.Address})
	if m.replyTo != nil {
		msg.ReplyToMailAddress(m.replyTo)
	}
	msg.ToMailAddress(&netmail.Address{Address: l.To})
	msg.Subject(l.Subject)
	msg.SetMessageIDWithValue(l.ID + "@" + m.domain)
	msg.SetDateWithValue(l.Date)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, l.Body)
	return msg, nil
}
