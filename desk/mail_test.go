package desk

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/mail"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// mailing are options of a Desk that sends its mails to a server.
func mailing(t *testing.T, s *desktest.MailServer) Options {
	t.Helper()
	o := testOptions(t)
	o.PublicURL = "https://desk.example"
	o.Mail = mail.Settings{Server: s.Addr, Login: desktest.MailLogin, Password: desktest.MailPassword, From: "Shop <help@shop.example>", Roots: s.Roots, PerMinute: mail.MaxPerMinute, Timeout: 2 * testkit.Patience}
	return o
}

// managedBy is managed for a Desk with these options, which runs.
func managedBy(t *testing.T, o Options) *pages {
	t.Helper()
	d := openDesk(t, o)
	if err := d.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	login, password, _ := d.FirstLogin()
	return &pages{t: t, d: d, cookie: logIn(t, d, login, password)}
}

// TestMailOptions: mail needs an address for its links, and settings that make sense.
func TestMailOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"PublicURL": func(o *Options) { o.PublicURL = "" },
		"from":      func(o *Options) { o.Mail.From = "nobody" },
	} {
		o := testOptions(t)
		o.PublicURL, o.Mail = "https://desk.example", mail.Settings{Server: "mail.example:25", From: "a@b.example"}
		change(&o)
		if d, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q (%v)", err, want, d)
		}
	}
}

// TestManageMail: the page shows how mails leave, sends a test mail, and shows what was not sent, which can be tried again
// or discarded. Each is in the audit log.
func TestManageMail(t *testing.T) {
	s := desktest.NewMailServer(t, "starttls")
	o := mailing(t, s)
	clock := desktest.NewClock()
	o.Now = clock.Now
	p := managedBy(t, o)
	body := visible(p.get("/admin/mail", http.StatusOK))
	for _, want := range []string{s.Addr + " (starttls)", "Shop <help@shop.example>", "Not since the start", "Every mail was sent"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in %s", want, body)
		}
	}
	if strings.Contains(body, desktest.MailPassword) || strings.Contains(body, "No mail server") {
		t.Error(body)
	}
	p.extra = []string{"Accept-Language", "zh-CN"}
	p.post("/admin/mail/test", url.Values{"to": {" kim@home.example "}})
	if got := s.Await(t, 1)[0]; got.To != "kim@home.example" || got.Subject != "Desk 测试邮件" || !strings.Contains(got.Body, "https://desk.example") {
		t.Errorf("%+v", got)
	}
	p.extra = nil
	errs, _ := p.refused("/admin/mail/test", url.Values{"to": {"kim@home.example\r\nBcc: eve@evil.example"}}, http.StatusUnprocessableEntity)
	if errs["to"] == "" {
		t.Errorf("%v", errs)
	}
	s.Refuse("rcpt", 550, "<b>no</b> such user")
	p.post("/admin/mail/test", url.Values{"to": {"nobody@home.example"}})
	testkit.Eventually(t, "the mail that was refused", func() bool {
		body = p.get("/admin/mail", http.StatusOK)
		return strings.Contains(body, "nobody@home.example")
	})
	if !strings.Contains(body, "550") || strings.Contains(body, "<b>no</b>") || !strings.Contains(visible(body), "such user") {
		t.Error(visible(body))
	}
	dead, err := p.d.store.Cold().DeadMails(t.Context())
	if err != nil || len(dead) != 1 {
		t.Fatalf("%+v %v", dead, err)
	}
	s.Refuse("rcpt", 0, "")
	p.post("/admin/mail/"+dead[0].ID+"/retry", url.Values{})
	if got := s.Await(t, 2)[1]; got.To != "nobody@home.example" || !strings.Contains(got.Header.Get("Message-Id"), dead[0].ID) {
		t.Errorf("%+v", got)
	}
	if status, _, _ := p.ask("POST", "/admin/mail/"+dead[0].ID+"/discard", url.Values{}); status != http.StatusNotFound {
		t.Errorf("a mail that was sent can be discarded: %d", status)
	}
	s.Refuse("rcpt", 550, "no")
	p.post("/admin/mail/test", url.Values{"to": {"nobody@home.example"}})
	testkit.Eventually(t, "a second mail that was refused", func() bool {
		dead, err = p.d.store.Cold().DeadMails(t.Context())
		return len(dead) == 1
	})
	p.post("/admin/mail/"+dead[0].ID+"/discard", url.Values{})
	if body := visible(p.get("/admin/mail", http.StatusOK)); strings.Contains(body, "nobody@home.example") {
		t.Error(body)
	}
	var said []string
	for _, l := range desktest.AuditLines(t, p.d.store, store.AuditQuery{Action: store.AuditMail}, 5) {
		said = append(said, l.Detail)
	}
	if want := []string{"discarded", "test mail", "tried again", "test mail", "test mail"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	if st := p.d.Stats().Mail; st.Sent != 2 || st.Dead != 2 || st.Failed != 2 {
		t.Errorf("%+v", st)
	}
}

// TestMailIsOff: without settings the page says so, nothing is queued, and what was not sent before can still be looked at.
func TestMailIsOff(t *testing.T) {
	p := managedBy(t, testOptions(t))
	if body := visible(p.get("/admin/mail", http.StatusOK)); !strings.Contains(body, "No mail server is set") || strings.Contains(body, "test mail") {
		t.Error(body)
	}
	_, body := p.refused("/admin/mail/test", url.Values{"to": {"kim@home.example"}}, http.StatusConflict)
	if n, err := p.d.store.Cold().MailCounts(t.Context()); err != nil || n.Queued != 0 || !strings.Contains(body, "mail-off") {
		t.Errorf("%+v %v %s", n, err, visible(body))
	}
	m, err := p.d.store.QueueMail(t.Context(), store.Mail{Kind: store.MailTest, To: "kim@home.example"})
	if err := errors.Join(err, p.d.store.GiveUpMail(t.Context(), m.ID, "550 no")); err != nil {
		t.Fatal(err)
	}
	if body := visible(p.get("/admin/mail", http.StatusOK)); !strings.Contains(body, "kim@home.example") || !strings.Contains(body, "550 no") {
		t.Error(body)
	}
}

// silentServer accepts connections and never says a word.
func silentServer(t *testing.T) (addr string, connected <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan struct{}, 100)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came <- struct{}{}
			done.Go(func() {
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		done.Wait()
	})
	return l.Addr().String(), came
}

// TestSilentMailServerIsNotNoticed: while a mail server holds a connection without a word, people chat, pages answer and
// take more mails, and Desk ends at once. After the next start the mails are still there.
func TestSilentMailServerIsNotNoticed(t *testing.T) {
	addr, connected := silentServer(t)
	o := testOptions(t)
	o.PublicURL = "https://desk.example"
	o.Mail = mail.Settings{Server: addr, TLS: mail.NoTLS, From: "a@b.example", Timeout: 24 * time.Hour}
	s := serve(t, o)
	p := &pages{t: t, d: s.desk, cookie: logIn(t, s.desk, "agent", s.pass)}
	p.post("/admin/mail/test", url.Values{"to": {"first@home.example"}})
	testkit.Receive(t, "the connection to the mail server", connected)
	customer := s.customer()
	conv, err := customer.Open(s.ctx, "human")
	s.ok(err)
	customer.Send(conv, "hello")
	s.ok(customer.Flushed(s.ctx))
	for range 3 {
		p.post("/admin/mail/test", url.Values{"to": {"more@home.example"}})
	}
	s.ok(s.desk.Ready(s.ctx))
	s.stop()
	s.start()
	if n, err := s.desk.store.Cold().MailCounts(s.ctx); err != nil || n.Queued != 4 {
		t.Errorf("%+v %v", n, err)
	}
}
