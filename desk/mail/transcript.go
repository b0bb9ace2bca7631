package mail

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	maxLines  = 200 << 10 // bytes of messages in one mail; of more the last are taken
	pageLines = 200
	pageBytes = 128 << 10
)

// transcript is the mail with a whole chat, as its customer has seen it.
func (t *texts) transcript(ctx context.Context, m store.Mail) (Letter, error) {
	conv, site, err := t.about(ctx, m.Conv)
	if err != nil {
		return Letter{}, err
	}
	if m.Upto == 0 { // who asks from here on gets one more mail: this one may be on its way already
		if m.Upto, err = t.store.SealMail(ctx, m.ID); err != nil {
			return Letter{}, err
		}
	}
	said, cut, err := t.said(ctx, &conv, m.Locale, 0, m.Upto, func(*store.Event) bool { return true })
	if err != nil {
		return Letter{}, err
	}
	if said == "" {
		return Letter{}, ErrNothing
	}
	name := line(site.Name, maxName)
	body := text(m.Locale, "transcript.body", name, moment(conv.OpenedAt))
	if cut {
		body += text(m.Locale, "cut")
	}
	return Letter{Subject: text(m.Locale, "transcript.subject", name), Body: body + said}, nil
}

// about reads a conversation and its site.
func (t *texts) about(ctx context.Context, id string) (store.Conversation, store.Site, error) {
	conv, err := t.store.Cold().Conversation(ctx, id)
	if err != nil {
		return conv, store.Site{}, err
	}
	site, err := t.store.Cold().Site(ctx, conv.Site)
	return conv, site, err
}

// said writes the messages of a chat that its customer may see, those after a number of the customer's stream and up to
// another one, 0 = all. cut says that earlier ones were left out.
func (t *texts) said(ctx context.Context, conv *store.Conversation, locale string, after, upto uint64, wanted func(*store.Event) bool) (said string, cut bool, err error) {
	var all []string
	size := 0
	for more := true; more; {
		var events []store.Event
		if events, more, err = t.store.Cold().Events(ctx, conv.ID, store.CustomerSide, after, pageLines, pageBytes); err != nil {
			return "", false, err
		}
		for i := range events {
			e := &events[i]
			if after = e.PSeq; upto > 0 && after > upto {
				more = false
				break
			}
			if s := message(e, conv, locale); s != "" && wanted(e) {
				all = append(all, s)
				size += len(s)
			}
		}
		for size > maxLines && len(all) > 1 {
			size -= len(all[0])
			all, cut = all[1:], true
		}
	}
	return strings.Join(all, ""), cut, nil
}

// message is one message in a mail, "" for what is none.
func message(e *store.Event, conv *store.Conversation, locale string) string {
	if e.Kind != store.KindText && e.Kind != store.KindFile && e.Kind != store.KindNotice {
		return ""
	}
	name := e.From.Name
	switch e.From.Kind {
	case store.Customer:
		name = conv.ContactName
	case store.System:
		name = text(locale, "system")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s:\n", moment(e.Time), line(cmp.Or(name, string(e.From.Kind)), maxName))
	if e.Body != "" {
		b.WriteString(plain(e.Body) + "\n")
	}
	for _, f := range e.Files {
		b.WriteString(text(locale, "file", line(f.Name, maxName)) + "\n")
	}
	return b.String() + "\n"
}

// moment shows a time in Unix milliseconds.
func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04 MST") }
