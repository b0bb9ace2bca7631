package mail

import (
	"context"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Chats is what a mail with answers has to know about the customer of a chat. Any goroutine may call it.
type Chats interface {
	// Online reports whether a contact is connected.
	Online(contact string) bool
	// ReadUpTo returns how far the customer has read a conversation, in the numbers of the customer's stream.
	ReadUpTo(ctx context.Context, conv string) (uint64, error)
}

const (
	onlineAgain = time.Minute      // until a customer who is connected is looked at again
	onlineMost  = 10 * time.Minute // that answers wait for such a customer to read them
)

// answers is the mail with what agents have written to a customer who waits for it by mail. What the customer has read in
// the chat is not in it. While the customer is connected, the mail waits a little for that.
//
// The link is the address of the site's chat and nothing more: the browser that has left the message has the chat there.
// A link that opened the chat in any browser would give it to whoever gets the mail, and nobody has proved that the
// address, which was typed into a form, is the customer's.
func (t *texts) answers(ctx context.Context, m store.Mail) (Letter, error) {
	conv, site, err := t.about(ctx, m.Conv)
	if err != nil {
		return Letter{}, err
	}
	read := conv.Marks.Customer.Read
	if t.chats != nil {
		if read, err = t.chats.ReadUpTo(ctx, m.Conv); err != nil {
			return Letter{}, err
		}
	}
	if read >= conv.LastPSeq {
		return Letter{}, ErrNothing
	}
	if m.Upto == 0 {
		now := t.now()
		if t.chats != nil && t.chats.Online(conv.Contact) && now.Before(time.UnixMilli(m.Created).Add(onlineMost)) {
			return Letter{}, &Later{now.Add(onlineAgain)}
		}
		if m.Upto, err = t.store.SealMail(ctx, m.ID); err != nil {
			return Letter{}, err
		}
	}
	said, cut, err := t.said(ctx, &conv, m.Locale, max(m.First-1, read), m.Upto, func(e *store.Event) bool { return e.From.Kind == store.Agent })
	if err != nil {
		return Letter{}, err
	}
	if said == "" {
		return Letter{}, ErrNothing
	}
	name := line(site.Name, maxName)
	body := text(m.Locale, "answers.body", name)
	if cut {
		body += text(m.Locale, "cut")
	}
	body += said + text(m.Locale, "answers.link", t.publicURL+"/chat/"+site.Key)
	return Letter{Subject: text(m.Locale, "answers.subject", name), Body: body}, nil
}
