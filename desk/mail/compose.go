package mail

import (
	"context"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// texts makes the texts of mails from what is in the store.
type texts struct {
	store     store.Store
	publicURL string
	chats     Chats // nil = not known
	now       func() time.Time
}

// composers returns the functions that make the texts, by the kind of mail.
func (t *texts) composers() map[store.MailKind]Composer {
	return map[store.MailKind]Composer{store.MailTest: t.test, store.MailReset: t.reset, store.MailTranscript: t.transcript, store.MailAnswers: t.answers}
}

// test is the mail by which an administrator sees that mail works.
func (t *texts) test(_ context.Context, m store.Mail) (Letter, error) {
	at := time.UnixMilli(m.Created).UTC().Format("2006-01-02 15:04 MST")
	return Letter{Subject: text(m.Locale, "test.subject"), Body: text(m.Locale, "test.body", t.publicURL, at)}, nil
}
