package store

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"
)

// Mail is a mail that waits to be sent, or that was given up. Its text is made when it is sent, from what the fields
// name. The queue thus holds no second copy of a conversation, and no secret. Times are Unix milliseconds.
type Mail struct {
	ID     string
	Kind   MailKind
	To     string // one address
	Locale string // language of the text, "" = English
	Conv   string // the conversation that it is about, "" = none
	Agent  string // the account that it is about, "" = none

	First uint64 // of MailAnswers: the first message that it may have, in the numbers of the customer's stream
	Upto  uint64 // of MailAnswers and MailTranscript: the last one, 0 = it still collects

	State    MailState
	Attempts int
	Error    string // of the last attempt
	Created  int64
	Due      int64 // it is not sent before
	Expires  int64 // it is given up then
}

// MailKind says what a mail is for.
type MailKind string

// Kinds of mails.
const (
	MailTest  MailKind = "test"  // shows an administrator that mail works
	MailReset MailKind = "reset" // has the link by which Agent sets a new password

	MailTranscript MailKind = "transcript" // is Conv, as its customer has seen it
	MailAnswers    MailKind = "answers"    // has what agents have written to a customer who waits for it by mail
)

// MailKinds returns every kind.
func MailKinds() []MailKind { return []MailKind{MailTest, MailReset, MailTranscript, MailAnswers} }

// Life returns for how long sending a mail is tried.
func (k MailKind) Life() time.Duration {
	if k == MailReset {
		return ResetLife // somebody waits for it
	}
	return 24 * time.Hour
}

// AnswerDelay is how long a MailAnswers collects what agents write. The first message of an agent to a customer who
// waits for answers by mail makes it, in the same transaction, and each later one is in it.
const AnswerDelay = time.Minute

// MailState says whether a mail waits or was given up. One that was sent is no longer in the queue.
type MailState string

// States of mails.
const (
	MailQueued MailState = "queued"
	MailDead   MailState = "dead"
)

// Limits of the queue of mails.
const (
	MaxMails       = 2_000 // that wait
	MaxDeadMails   = 500   // beyond them the oldest goes
	MaxMailError   = 300   // characters
	KeepDeadMails  = 30 * 24 * time.Hour
	MaxMailsOfPage = 100
)

// ErrMailFull refuses a mail because as many wait as the queue takes.
var ErrMailFull = errors.New("store: the queue of mails is full")

// MailCounts is how many mails there are.
type MailCounts struct{ Queued, Dead int }

// ValidEmail reports whether a text is one plain e-mail address with a domain, as mails are sent to.
func ValidEmail(s string) bool { return utf8.ValidString(s) && isEmail(s) }

// Check returns what is wrong with a new mail as an Invalid.
func (m *Mail) Check() error {
	var i Invalid
	i.need(ValidEmail(m.To), "to", ReasonFormat)
	known := map[MailKind]bool{MailTest: true, MailReset: m.Agent != "", MailTranscript: m.Conv != ""}
	i.need(known[m.Kind], "kind", ReasonUnknown)
	return i.err()
}

// MailReader are the reads of the queue of mails. Methods block and honour ctx.
type MailReader interface {
	// NextMail returns the mail that is due first, also if it is not due yet. The error is ErrNotFound if none waits.
	NextMail(ctx context.Context) (Mail, error)
	// DeadMails returns the mails that were given up last, at most MaxMailsOfPage.
	DeadMails(ctx context.Context) ([]Mail, error)
	// MailCounts counts the mails.
	MailCounts(ctx context.Context) (MailCounts, error)
}

// MailWrites are the changes of the queue of mails. They block until committed and honour ctx. The error is ErrNotFound
// if there is no such mail in the state that the change needs.
type MailWrites interface {
	// QueueMail adds a mail and makes its id. Due and Expires get their defaults where they are 0. Of a MailTranscript that
	// waits and still collects there is no second one. Errors: an Invalid, ErrMailFull, ErrNotFound for a conversation that is gone.
	QueueMail(ctx context.Context, m Mail) (Mail, error)
	// SealMail ends the collecting of a MailAnswers or a MailTranscript, and returns the last message that it may have. A
	// second call returns the same. A MailTranscript collects again after DelayMail and RetryMail.
	SealMail(ctx context.Context, id string) (upto uint64, err error)
	// MailSent takes a mail out of the queue.
	MailSent(ctx context.Context, id string) error
	// DelayMail stores why an attempt has failed and when the next one is due. With why "" it was no attempt.
	DelayMail(ctx context.Context, id string, due int64, why string) error
	// GiveUpMail makes a waiting mail a dead one. Dead mails beyond MaxDeadMails, or older than KeepDeadMails, go.
	GiveUpMail(ctx context.Context, id, why string) error
	// ExpireMails gives up all waiting mails whose time is over, and returns how many.
	ExpireMails(ctx context.Context, why string) (int, error)
	// RetryMail makes a dead mail wait again, as if it was new.
	RetryMail(ctx context.Context, id string) error
	// DiscardMail removes a dead mail.
	DiscardMail(ctx context.Context, id string) error
}
