package mail

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sqlitetest.Closing{M: m}) }

// settingsFor are the settings for a server of a test.
func settingsFor(s *desktest.MailServer, mode TLSMode) Settings {
	o := Settings{Server: s.Addr, TLS: mode, From: "Shop <help@shop.example>", Roots: s.Roots, Timeout: 2 * testkit.Patience}
	if mode != NoTLS {
		o.Login, o.Password = desktest.MailLogin, desktest.MailPassword
	}
	return o
}

func newSMTP(t *testing.T, s Settings) *SMTP {
	t.Helper()
	m, err := NewSMTP(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// aLetter has all that may go wrong on the way: other scripts, a line that ends a mail, a line as long as none may be.
func aLetter() Letter {
	return Letter{
		ID: "0192-a", To: "kim@home.example", Subject: "Ihr Gespräch 对话", Date: time.Unix(1_700_000_000, 0),
		Body: "Grüße, 你好\n.\n..two dots\nFrom here\n" + strings.Repeat("long ", 400) + "\n\tend =3D\n",
	}
}

// TestSend: a letter arrives as it was written, over each kind of connection, and from and to whom it says.
func TestSend(t *testing.T) {
	for _, mode := range []TLSMode{StartTLS, Implicit, NoTLS} {
		t.Run(string(mode), func(t *testing.T) {
			s := desktest.NewMailServer(t, string(mode))
			o := settingsFor(s, mode)
			o.ReplyTo = "answers@shop.example"
			l := aLetter()
			m := newSMTP(t, o)
			for range 2 {
				if err := m.Send(testkit.Context(t), l); err != nil {
					t.Fatal(err)
				}
			}
			for _, got := range s.Await(t, 2) {
				if got.From != "help@shop.example" || got.To != l.To || got.Subject != l.Subject || got.Body != l.Body {
					t.Errorf("%+v", got)
				}
				for name, want := range map[string]string{
					"From": `"Shop" <help@shop.example>`, "To": "<kim@home.example>", "Reply-To": "<answers@shop.example>", "Message-Id": "<0192-a@shop.example>",
					"Auto-Submitted": "auto-generated", "Date": l.Date.Format(time.RFC1123Z), "Content-Type": "text/plain; charset=UTF-8",
				} {
					if v := got.Header[name]; len(v) != 1 || v[0] != want {
						t.Errorf("%s: %q, want %q", name, v, want)
					}
				}
				if len(got.Header["Bcc"])+len(got.Header["User-Agent"])+len(got.Header["X-Mailer"]) > 0 {
					t.Errorf("%v", got.Header)
				}
			}
		})
	}
}

// TestNothingBecomesAHeader: a letter that could add a header, another receiver or a command is refused before anybody is
// asked.
func TestNothingBecomesAHeader(t *testing.T) {
	s := desktest.NewMailServer(t, "none")
	m := newSMTP(t, settingsFor(s, NoTLS))
	for name, change := range map[string]func(*Letter){
		"line in the subject":   func(l *Letter) { l.Subject = "a\r\nBcc: eve@evil.example" },
		"feed in the subject":   func(l *Letter) { l.Subject = "a\nBcc: eve@evil.example" },
		"return in the subject": func(l *Letter) { l.Subject = "a\rBcc: eve@evil.example" },
		"no subject":            func(l *Letter) { l.Subject = "" },
		"long subject":          func(l *Letter) { l.Subject = strings.Repeat("ü", MaxSubject+1) },
		"line in the address":   func(l *Letter) { l.To = "kim@home.example\r\nRCPT TO:<eve@evil.example>" },
		"two addresses":         func(l *Letter) { l.To = "kim@home.example,eve@evil.example" },
		"name and address":      func(l *Letter) { l.To = "Kim <kim@home.example>" },
		"quoted address":        func(l *Letter) { l.To = "\"a\r\nb\"@home.example" },
		"no address":            func(l *Letter) { l.To = "" },
		"line in the id":        func(l *Letter) { l.ID = "a\r\nBcc: x" },
		"no id":                 func(l *Letter) { l.ID = "" },
		"return in the text":    func(l *Letter) { l.Body = "a\rb" },
		"escape in the text":    func(l *Letter) { l.Body = "a\x1b[2Jb" },
		"zero in the text":      func(l *Letter) { l.Body = "a\x00b" },
		"no UTF-8":              func(l *Letter) { l.Body = "\xff" },
		"too much text":         func(l *Letter) { l.Body = strings.Repeat("x", MaxBody+1) },
	} {
		l := aLetter()
		change(&l)
		err := m.Send(testkit.Context(t), l)
		if f, ok := errors.AsType[*Failure](err); !ok || !f.Permanent || f.Server {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := s.Begun(); n > 0 {
		t.Errorf("the server was asked %d times", n)
	}
}

// TestRefusals: a refusal of the letter, for good or for now, is told from a server that cannot be used. Refusing the
// sender is one of the latter.
func TestRefusals(t *testing.T) {
	s := desktest.NewMailServer(t, "starttls")
	o := settingsFor(s, StartTLS)
	m := newSMTP(t, o)
	for _, stage := range []string{"mail", "rcpt", "data"} {
		for _, code := range []int{421, 450, 452, 550, 554} {
			s.Refuse(stage, code, "not today")
			f, ok := errors.AsType[*Failure](m.Send(testkit.Context(t), aLetter()))
			server := stage == "mail" || code == 421
			if !ok || f.Permanent != (code >= 500 && !server) || f.Server != server || f.Code != code || !strings.Contains(f.Error(), "not today") {
				t.Errorf("%s %d: %+v", stage, code, f)
			}
			s.Refuse(stage, 0, "")
		}
	}
	for name, change := range map[string]func(*Settings){
		"wrong password":      func(s *Settings) { s.Password = "guess" },
		"unknown certificate": func(s *Settings) { s.Roots = x509.NewCertPool() },
		"TLS of another kind": func(s *Settings) { s.TLS = Implicit },
		"nobody listens":      func(s *Settings) { s.Server = closedPort(t) },
		"no login":            func(s *Settings) { s.Login, s.Password = "", "" },
	} {
		changed := o
		change(&changed)
		err := newSMTP(t, changed).Send(testkit.Context(t), aLetter())
		f, ok := errors.AsType[*Failure](err)
		if !ok || !f.Server || f.Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := m.Send(testkit.Context(t), aLetter()); err != nil || len(s.Mails()) != 1 {
		t.Errorf("%v, %d mails", err, len(s.Mails()))
	}
}

// closedPort returns an address at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	return l.Addr().String()
}

// TestSTARTTLSIsRequired: a server, or somebody on the way, that offers no TLS gets neither the letter nor the password.
func TestSTARTTLSIsRequired(t *testing.T) {
	said := make(chan string, 100)
	m := newSMTP(t, Settings{Server: "mail.example:25", From: "a@b.example", Login: "desk", Password: "secret"})
	m.dial = scripted(func(line string) string {
		if line == "connect" {
			return "220 mail.example"
		}
		said <- line
		if strings.HasPrefix(line, "EHLO") {
			return "250-mail.example\r\n250 AUTH PLAIN LOGIN"
		}
		return "250 ok"
	})
	err := m.Send(testkit.Context(t), aLetter())
	if f, ok := errors.AsType[*Failure](err); !ok || !f.Server || !strings.Contains(err.Error(), "STARTTLS") {
		t.Errorf("%v", err)
	}
	for len(said) > 0 {
		if line := <-said; !strings.HasPrefix(line, "EHLO b.example") {
			t.Errorf("said %q", line)
		}
	}
}

// scripted connects to a server that greets and answers each line. "" is no answer, and ends the answers.
func scripted(answer func(line string) string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer func() { _ = theirs.Close() }()
			in := bufio.NewScanner(theirs)
			for say, more := answer("connect"), true; more; more = in.Scan() {
				if in.Text() != "" {
					say = answer(in.Text())
				}
				if say == "" {
					continue // it listens and says nothing
				}
				if _, err := fmt.Fprintf(theirs, "%s\r\n", say); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}
}

// TestSilentServer: a server that stops answering at any stage costs half a minute, and one that answers always a little
// costs the time that a letter may take; then the attempt has failed.
func TestSilentServer(t *testing.T) {
	for _, stage := range []string{"connect", "EHLO", "MAIL", "RCPT", "DATA", "."} {
		synctest.Test(t, func(t *testing.T) {
			m := newSMTP(t, Settings{Server: "mail.example:25", TLS: NoTLS, From: "a@b.example"})
			m.dial = scripted(func(line string) string {
				switch {
				case strings.HasPrefix(line, stage):
					return ""
				case line == "connect":
					return "220 mail.example"
				case line == "DATA":
					return "354 go on"
				case strings.HasPrefix(line, "EHLO"), strings.HasPrefix(line, "MAIL"), strings.HasPrefix(line, "RCPT"), line == ".", line == "NOOP":
					return "250 ok"
				}
				return ""
			})
			began := time.Now()
			err := m.Send(t.Context(), aLetter())
			f, ok := errors.AsType[*Failure](err)
			if took := time.Since(began); !ok || !f.Server || took > time.Minute || took < 30*time.Second {
				t.Errorf("%s: %v after %v", stage, err, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := newSMTP(t, Settings{Server: "mail.example:25", TLS: NoTLS, From: "a@b.example"})
		m.dial = scripted(func(line string) string {
			time.Sleep(25 * time.Second)
			if line == "connect" {
				return "220 mail.example"
			}
			return "250 ok"
		})
		began := time.Now()
		err := m.Send(t.Context(), aLetter())
		if took := time.Since(began); err == nil || took > time.Minute {
			t.Errorf("slow: %v after %v", err, took)
		}
		time.Sleep(time.Minute) // the server notices the end
	})
}

// TestSendEndsWithItsContext: who stops need not wait for a server that does not answer.
func TestSendEndsWithItsContext(t *testing.T) {
	m := newSMTP(t, Settings{Server: "mail.example:25", TLS: NoTLS, From: "a@b.example", Timeout: 2 * testkit.Patience})
	asked := make(chan struct{})
	m.dial = scripted(func(string) string { close(asked); return "" })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Send(ctx, aLetter()) }()
	testkit.Receive(t, "the connection", asked)
	cancel()
	if err := testkit.Receive(t, "the end", ended); err == nil {
		t.Error("sent")
	}
}
