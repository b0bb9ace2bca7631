package mail

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-eddy/eddy/desk/store"
)

// TLSMode says how the connection to the mail server is protected.
type TLSMode string

// Modes. NoTLS sends no login.
const (
	StartTLS TLSMode = "starttls" // begins in clear and must change to TLS before anything is said
	Implicit TLSMode = "implicit" // TLS from the first byte
	NoTLS    TLSMode = "none"
)

// Settings say how mails leave. The zero value means that Desk sends no mail.
type Settings struct {
	Server   string  // host:port; "" = no mail
	TLS      TLSMode // default StartTLS
	Login    string  // "" = the server asks for none
	Password string
	From     string // address of the sender, with a name or without: Shop <help@shop.example>
	ReplyTo  string // where answers go, as From; "" = to From

	PerMinute int           // mails at most, default 60
	Timeout   time.Duration // of one mail, default 1 min; the server must answer each half of it
	Roots     *x509.CertPool
}

// Limits of Settings.
const (
	DefaultPerMinute = 60
	MaxPerMinute     = 6000
	defaultTimeout   = time.Minute
	maxLogin         = 256
	maxSender        = 200
)

// On reports whether mails are sent.
func (s *Settings) On() bool { return s.Server != "" }

// Fill sets the defaults.
func (s *Settings) Fill() {
	if s.TLS == "" {
		s.TLS = StartTLS
	}
	if s.PerMinute == 0 {
		s.PerMinute = DefaultPerMinute
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
}

// SettingError says which setting is wrong, in the words of the options.
type SettingError struct {
	Setting string // server, tls, login, password, from, reply-to or rate
	Why     string
}

// Error implements error.
func (e *SettingError) Error() string { return "mail: " + e.Setting + " " + e.Why }

// Check returns the first thing that is wrong, as a *SettingError. It asks nobody.
func (s *Settings) Check() error {
	if !s.On() {
		if s.TLS != "" && s.TLS != StartTLS || s.Login != "" || s.Password != "" || s.From != "" || s.ReplyTo != "" {
			return &SettingError{"server", "is empty, but other settings of mail are given: name the mail server, such as smtp.example:587"}
		}
		return nil
	}
	if _, _, err := s.hostPort(); err != nil {
		return &SettingError{"server", err.Error()}
	}
	for _, check := range []error{s.checkLogin(), checkSender("from", s.From, true), checkSender("reply-to", s.ReplyTo, false)} {
		if check != nil {
			return check
		}
	}
	if s.PerMinute < 0 || s.PerMinute > MaxPerMinute {
		return &SettingError{"rate", fmt.Sprintf("is %d: give 1 to %d mails a minute", s.PerMinute, MaxPerMinute)}
	}
	return nil
}

func (s *Settings) hostPort() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(s.Server)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || host == "" || port < 1 || port > 65535 || strings.ContainsFunc(host, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '/' }) {
		return "", 0, fmt.Errorf("is %q: write host:port, such as smtp.example:587", s.Server)
	}
	return host, port, nil
}

func (s *Settings) checkLogin() error {
	switch s.TLS {
	case "", StartTLS, Implicit:
	case NoTLS:
		if s.Login != "" {
			return &SettingError{"tls", "is none, which would send the password in clear: take starttls or implicit, or leave out the login"}
		}
	default:
		return &SettingError{"tls", fmt.Sprintf("is %q: give starttls, implicit or none", s.TLS)}
	}
	switch {
	case s.Login == "" && s.Password != "":
		return &SettingError{"login", "is empty, but there is a password"}
	case s.Login != "" && s.Password == "":
		return &SettingError{"password", "is empty, but there is a login"}
	case len(s.Login) > maxLogin || strings.ContainsFunc(s.Login, unicode.IsControl):
		return &SettingError{"login", fmt.Sprintf("is not one line of at most %d bytes", maxLogin)}
	}
	return nil
}

func checkSender(setting, s string, required bool) error {
	if s == "" && !required {
		return nil
	}
	if _, err := sender(s); err != nil {
		return &SettingError{setting, fmt.Sprintf("is %q: write an address such as help@shop.example, or Shop <help@shop.example>", s)}
	}
	return nil
}

// sender reads an address with a name or without.
func sender(s string) (*mail.Address, error) {
	a, err := mail.ParseAddress(s)
	if err != nil {
		return nil, err
	}
	if len(s) > maxSender || !store.ValidEmail(a.Address) || strings.ContainsFunc(a.Name, unicode.IsControl) {
		return nil, errors.New("mail: this is no address of a sender")
	}
	return a, nil
}
