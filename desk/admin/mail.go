package admin

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-eddy/eddy/desk/mail"
	"github.com/go-eddy/eddy/desk/store"
)

// mailPage says how mails leave, and lists those that did not.
type mailPage struct {
	On       bool
	Settings mail.Settings
	Counts   store.MailCounts
	Last     time.Time // the server took a mail, zero = never
	Problem  mail.Problem
	Dead     []store.Mail
}

func (p *Pages) mail(q *request) { q.mailPage(http.StatusOK) }

func (q *request) mailPage(status int) {
	post, r := q.p.o.Mail, q.p.o.Store.Cold()
	page := mailPage{On: post.On(), Settings: post.Settings()}
	page.Last, page.Problem = post.Server()
	var errs [2]error
	page.Counts, errs[0] = r.MailCounts(q.ctx())
	page.Dead, errs[1] = r.DeadMails(q.ctx())
	if err := errors.Join(errs[:]...); err != nil {
		q.failed(err)
		return
	}
	q.render(status, "mail", page)
}

// testMail puts a mail into the queue, by which an administrator sees whether mail works.
func (p *Pages) testMail(q *request) {
	if !p.o.Mail.On() {
		q.wrong("mail", q.T("mail.off"))
		q.mailPage(http.StatusConflict)
		return
	}
	m := store.Mail{Kind: store.MailTest, To: q.line("to"), Locale: q.Lang}
	if err := m.Check(); err != nil {
		q.failed(err)
		q.mailPage(q.status())
		return
	}
	if !q.audit(store.AuditMail, "mail", "test mail") {
		return
	}
	_, err := p.o.Store.QueueMail(q.ctx(), m)
	switch {
	case errors.Is(err, store.ErrMailFull):
		q.wrong("to", q.T("mail.full"))
		q.mailPage(http.StatusConflict)
	case err != nil:
		q.failed(err)
	default:
		p.o.Mail.Wake()
		q.see("/admin/mail", "mail_queued")
	}
}

func (p *Pages) retryMail(q *request) {
	q.decideMail("tried again", "mail_retry", func(id string) error { return p.o.Store.RetryMail(q.ctx(), id) })
	p.o.Mail.Wake()
}

func (p *Pages) discardMail(q *request) {
	q.decideMail("discarded", "mail_discarded", func(id string) error { return p.o.Store.DiscardMail(q.ctx(), id) })
}

// decideMail does something with a mail that was given up.
func (q *request) decideMail(what, done string, do func(id string) error) {
	id := q.r.PathValue("id")
	if err := do(id); err != nil {
		q.failed(err)
		return
	}
	if q.audit(store.AuditMail, "mail "+id, what) {
		q.see("/admin/mail", done)
	}
}
