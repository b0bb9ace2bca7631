package desk

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// mailedChat is a chat of a visitor with an address, whom the first account has answered.
type mailedChat struct {
	*served
	visitor  *desktest.Visitor
	customer *desktest.Client
	agent    *desktest.Client
	conv     string
}

func newMailedChat(t *testing.T, o Options, email string) *mailedChat {
	t.Helper()
	c := &mailedChat{served: serve(t, o), visitor: new(desktest.Visitor)}
	site, err := c.desk.store.Cold().SiteByKey(c.ctx, "demo")
	c.ok(err)
	site.Settings.MailChats = true
	site.Settings.PreChat = []store.Field{{Name: "email", Label: "E-mail", Type: "email"}}
	c.ok(c.desk.store.UpdateSite(c.ctx, site))
	c.customer = c.web.CustomerBy("demo", c.visitor)
	t.Cleanup(c.customer.Close)
	f, err := c.customer.Do(c.ctx, "conv.open", "", proto.Open{Wants: "human", Fields: map[string]string{"email": email}})
	c.ok(err)
	var opened struct{ Head proto.Head }
	f.Decode(&opened)
	c.conv = opened.Head.ID
	c.agent = c.newWeb().Agent("agent", c.pass)
	t.Cleanup(c.agent.Close)
	c.ok(c.agent.Take(c.ctx, c.conv))
	c.customer.Send(c.conv, "where is\r\nmy order?\x1b[2J")
	c.ok(c.customer.Flushed(c.ctx))
	c.agent.Send(c.conv, "on its way")
	c.ok(c.agent.Flushed(c.ctx))
	_, err = c.agent.Do(c.ctx, "note.send", c.conv, proto.Note{ClientID: "7f2c1b1e-52b5-4a0e-8f43-7d0a5a0d9f10", Body: "a difficult one"})
	c.ok(err)
	return c
}

func (c *mailedChat) asVisitor(token, conv string, extra ...string) (int, proto.Error) {
	c.t.Helper()
	status, resp := call(c.desk, "POST", "/api/v1/widget/transcript", fmt.Sprintf(`{"token":%q,"conv":%q}`, token, conv), extra...)
	if status == http.StatusNoContent {
		return status, proto.Error{}
	}
	return status, desktest.Into[proto.Error](c.t, resp)
}

func (c *mailedChat) asStaff(cookie, conv string) (int, proto.Error) {
	c.t.Helper()
	status, resp := call(c.desk, "POST", "/api/v1/agent/conversations/"+conv+"/transcript", "{}", "Cookie", cookie)
	if status == http.StatusNoContent {
		return status, proto.Error{}
	}
	return status, desktest.Into[proto.Error](c.t, resp)
}

// TestTranscript: staff and, when the chat is over, its visitor have it sent to the address that is known of the visitor:
// what the visitor has seen, and nothing else.
func TestTranscript(t *testing.T) {
	s := desktest.NewMailServer(t, "starttls")
	c := newMailedChat(t, mailing(t, s), "kim@home.example")
	cookie := logIn(t, c.desk, "agent", c.pass)
	if status, e := c.asVisitor(c.visitor.Token(), c.conv); status != http.StatusConflict || e.Reason != "open" {
		t.Errorf("before the end: %d %+v", status, e)
	}
	if status, e := c.asStaff(cookie, c.conv); status != http.StatusNoContent {
		t.Fatalf("staff: %d %+v", status, e)
	}
	m := s.Await(t, 1)[0]
	if m.To != "kim@home.example" || m.Subject != "Your chat with Demo site" || !strings.Contains(m.Body, ":\nwhere is\nmy order?[2J\n") ||
		!strings.Contains(m.Body, "Agent:\non its way\n") || strings.Contains(m.Body, "difficult") || strings.Contains(m.Body, "earlier messages") {
		t.Errorf("%+v", m)
	}
	c.ok(c.agent.EndConv(c.ctx, c.conv, "done"))
	if status, e := c.asVisitor(c.visitor.Token(), c.conv); status != http.StatusNoContent {
		t.Fatalf("visitor: %d %+v", status, e)
	}
	if got := s.Await(t, 2)[1]; got.Body != m.Body {
		t.Errorf("%q, want %q", got.Body, m.Body)
	}
	var said []string
	for _, l := range desktest.AuditLines(t, c.desk.store, store.AuditQuery{Action: store.AuditMail, Target: "conversation " + c.conv}, 2) {
		said = append(said, string(l.Who.Kind)+" "+l.Detail)
	}
	if got := strings.Join(said, ", "); got != "customer transcript, agent transcript" {
		t.Errorf("%q", got)
	}
}

// TestTranscriptIsGuarded: nobody has a chat sent that they may not read, nor to an address of their own choice, nor very
// often.
func TestTranscriptIsGuarded(t *testing.T) {
	s := desktest.NewMailServer(t, "starttls")
	o := mailing(t, s)
	clock := desktest.NewClock()
	o.Now = clock.Now
	c := newMailedChat(t, o, "kim@home.example")
	c.ok(c.agent.EndConv(c.ctx, c.conv, "done"))
	other := new(desktest.Visitor)
	stranger := c.web.CustomerBy("demo", other)
	t.Cleanup(stranger.Close)
	_, err := stranger.Do(c.ctx, "conv.open", "", proto.Open{Fields: map[string]string{"email": "eve@evil.example"}})
	c.ok(err)
	for name, ask := range map[string]func() (int, proto.Error){
		"another visitor":    func() (int, proto.Error) { return c.asVisitor(other.Token(), c.conv) },
		"an unknown chat":    func() (int, proto.Error) { return c.asVisitor(c.visitor.Token(), "none") },
		"an unknown visitor": func() (int, proto.Error) { return c.asVisitor("guess", c.conv) },
		"from another origin": func() (int, proto.Error) {
			return c.asVisitor(c.visitor.Token(), c.conv, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		},
		"a colleague": func() (int, proto.Error) {
			_, cookie := employ(t, c.desk, perm.Agent, "lin")
			return c.asStaff(cookie, c.conv)
		},
		"an auditor": func() (int, proto.Error) {
			_, cookie := employ(t, c.desk, perm.Auditor, "rita")
			return c.asStaff(cookie, c.conv)
		},
	} {
		if status, e := ask(); status < 400 || status >= 500 {
			t.Errorf("%s: %d %+v", name, status, e)
		}
	}
	_, cookie := employ(t, c.desk, perm.Supervisor, "sue")
	if status, e := c.asStaff(cookie, c.conv); status != http.StatusNoContent {
		t.Errorf("a supervisor: %d %+v", status, e)
	}
	if rows := desktest.AuditLines(t, c.desk.store, store.AuditQuery{Action: store.AuditRead, Target: "conversation " + c.conv}, 1); rows[0].Who.Name != "sue" {
		t.Errorf("%+v", rows)
	}
	s.Await(t, 1)
	for i := range 3 {
		if status, e := c.asVisitor(c.visitor.Token(), c.conv); status != http.StatusNoContent {
			t.Errorf("%d: %d %+v", i, status, e)
		}
	}
	if status, e := c.asVisitor(c.visitor.Token(), c.conv); status != http.StatusTooManyRequests || e.RetryMS == 0 {
		t.Errorf("once more: %d %+v", status, e)
	}
	site, err := c.desk.store.Cold().SiteByKey(c.ctx, "demo")
	c.ok(err)
	site.Settings.MailChats = false
	c.ok(c.desk.store.UpdateSite(c.ctx, site))
	if status, e := c.asVisitor(c.visitor.Token(), c.conv); status != http.StatusForbidden {
		t.Errorf("a site that does not: %d %+v", status, e)
	}
}

// TestTranscriptNeedsMailAndAnAddress: without either the answer says which is missing, and the page is not told to offer
// what cannot be done.
func TestTranscriptNeedsMailAndAnAddress(t *testing.T) {
	c := newMailedChat(t, testOptions(t), "kim@home.example")
	if status, e := c.asStaff(logIn(t, c.desk, "agent", c.pass), c.conv); status != http.StatusConflict || e.Reason != "mail_off" {
		t.Errorf("%d %+v", status, e)
	}
	var session struct{ Site struct{ Mail bool } }
	c.ok(c.web.Post(c.ctx, "/api/v1/widget/session", map[string]string{"site": "demo"}, &session))
	if session.Site.Mail {
		t.Error("a server without mail offers it")
	}
	s := desktest.NewMailServer(t, "starttls")
	c = newMailedChat(t, mailing(t, s), "")
	if status, e := c.asStaff(logIn(t, c.desk, "agent", c.pass), c.conv); status != http.StatusConflict || e.Reason != "no_address" {
		t.Errorf("%d %+v", status, e)
	}
	c.ok(c.web.Post(c.ctx, "/api/v1/widget/session", map[string]string{"site": "demo"}, &session))
	if !session.Site.Mail || s.Begun() > 0 {
		t.Errorf("%+v", session)
	}
}

// TestWhoReadsAnswers: mails with answers are told whether the customer is connected, and how far it has read.
func TestWhoReadsAnswers(t *testing.T) {
	c := newMailedChat(t, testOptions(t), "kim@home.example")
	conv, err := c.desk.store.Cold().Conversation(c.ctx, c.conv)
	c.ok(err)
	if upto, err := c.desk.hub.ReadUpTo(c.ctx, c.conv); err != nil || upto >= conv.LastPSeq || !c.desk.hub.Online(conv.Contact) || c.desk.hub.Online("nobody") {
		t.Errorf("%d of %d, %v", upto, conv.LastPSeq, err)
	}
	c.ok(c.customer.Tell(c.ctx, "receipt", c.conv, proto.Receipt{Read: conv.LastPSeq}))
	testkit.Eventually(t, "the receipt", func() bool {
		upto, err := c.desk.hub.ReadUpTo(c.ctx, c.conv)
		return err == nil && upto == conv.LastPSeq
	})
	c.customer.Close()
	testkit.Eventually(t, "the end of the connection", func() bool { return !c.desk.hub.Online(conv.Contact) })
}
