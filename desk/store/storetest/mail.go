package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

func (r *rig) mail(to string) store.Mail {
	r.t.Helper()
	m, err := r.QueueMail(r.t.Context(), store.Mail{Kind: store.MailTest, To: to, Locale: "zh-CN"})
	r.must(err)
	return m
}

// next returns the mail that is due first, and checks how many there are.
func (r *rig) next(queued, dead int) store.Mail {
	r.t.Helper()
	n, err := r.Cold().MailCounts(r.t.Context())
	if err != nil || n != (store.MailCounts{Queued: queued, Dead: dead}) {
		r.t.Errorf("%+v %v, want %d and %d", n, err, queued, dead)
	}
	m, err := r.Cold().NextMail(r.t.Context())
	if queued == 0 && errors.Is(err, store.ErrNotFound) {
		return store.Mail{}
	}
	r.must(err)
	return m
}

// testMail: a mail waits until it was sent or given up. A delay moves it behind those that are due before, and only a
// failed attempt counts.
func testMail(t *testing.T, r *rig) {
	ctx := t.Context()
	for _, to := range []string{"", "kim", "kim@", "a@b.example\r\nBcc: c@d.example", "a@b.example,c@d.example", "Kim <a@b.example>", strings.Repeat("x", 250) + "@b.example"} {
		if _, err := r.QueueMail(ctx, store.Mail{Kind: store.MailTest, To: to}); !isInvalid(err, "to") {
			t.Errorf("to %q: %v", to, err)
		}
	}
	if _, err := r.QueueMail(ctx, store.Mail{Kind: "advertisement", To: "a@b.example"}); !isInvalid(err, "kind") {
		t.Error(err)
	}
	a := r.mail("a@shop.example")
	if a.ID == "" || a.State != store.MailQueued || a.Due != a.Created || a.Expires != a.Created+store.MailTest.Life().Milliseconds() || a.Locale != "zh-CN" {
		t.Errorf("%+v", a)
	}
	r.shift.Add(int64(time.Second))
	b := r.mail("b@shop.example")
	if got := r.next(2, 0); got != a {
		t.Errorf("%+v, want %+v", got, a)
	}
	r.must(r.DelayMail(ctx, a.ID, b.Due+1, ""))
	if got := r.next(2, 0); got.ID != b.ID {
		t.Errorf("%+v comes before %+v", got, b)
	}
	r.must(r.DelayMail(ctx, b.ID, b.Due+2, "450\x1b[1m not\r\n now "+strings.Repeat("ü", store.MaxMailError)))
	if got := r.next(2, 0); got.ID != a.ID || got.Attempts != 0 || got.Error != "" || got.Due != b.Due+1 {
		t.Errorf("%+v", got)
	}
	r.must(r.MailSent(ctx, a.ID))
	if got := r.next(1, 0); got.ID != b.ID || got.Attempts != 1 || !strings.HasPrefix(got.Error, "450 [1m not now üü") || len([]rune(got.Error)) != store.MaxMailError {
		t.Errorf("%+v", got)
	}
	if err := errors.Join(r.DelayMail(ctx, b.ID, b.Due+3, ""), r.GiveUpMail(ctx, b.ID, "550 no")); err != nil {
		t.Error(err)
	}
	r.next(0, 1)
	dead, err := r.Cold().DeadMails(ctx)
	if err != nil || len(dead) != 1 || dead[0].ID != b.ID || dead[0].State != store.MailDead || dead[0].Error != "550 no" || dead[0].Attempts != 2 {
		t.Errorf("%+v %v", dead, err)
	}
	for name, err := range map[string]error{
		"sent twice": r.MailSent(ctx, a.ID), "sent though dead": r.MailSent(ctx, b.ID), "delayed though dead": r.DelayMail(ctx, b.ID, 1, ""),
		"given up twice": r.GiveUpMail(ctx, b.ID, "x"), "unknown": r.RetryMail(ctx, a.ID), "discarded unknown": r.DiscardMail(ctx, a.ID),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.shift.Add(int64(48 * time.Hour))
	r.must(r.RetryMail(ctx, b.ID))
	if got := r.next(1, 0); got.ID != b.ID || got.Attempts != 0 || got.Due < b.Expires || got.Expires != got.Due+store.MailTest.Life().Milliseconds() {
		t.Errorf("%+v", got)
	}
	if err := r.DiscardMail(ctx, b.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a waiting mail was discarded: %v", err)
	}
	r.must(r.GiveUpMail(ctx, b.ID, "550 still no"))
	r.must(r.DiscardMail(ctx, b.ID))
	r.next(0, 0)
}

func isInvalid(err error, field string) bool {
	var invalid store.Invalid
	return errors.As(err, &invalid) && invalid[0].Field == field
}

// testMailIsBounded: the queue takes so many and no more. Dead mails beyond their number go, the oldest first, and so do
// those that nobody has looked at for a month. What has waited too long is given up together.
func testMailIsBounded(t *testing.T, r *rig) {
	ctx := t.Context()
	done := make(chan error, 64)
	for begun := 0; begun < store.MaxMails; begun += cap(done) {
		n := min(cap(done), store.MaxMails-begun)
		for i := range n {
			go func() {
				_, err := r.QueueMail(ctx, store.Mail{Kind: store.MailTest, To: fmt.Sprintf("m%d@shop.example", begun+i)})
				done <- err
			}()
		}
		for range n {
			r.must(<-done)
		}
	}
	if _, err := r.QueueMail(ctx, store.Mail{Kind: store.MailTest, To: "more@shop.example"}); !errors.Is(err, store.ErrMailFull) {
		t.Errorf("%v", err)
	}
	r.must(r.MailSent(ctx, r.next(store.MaxMails, 0).ID))
	r.must(r.MailSent(ctx, r.next(store.MaxMails-1, 0).ID))
	kept := r.mail("kept@shop.example")
	r.must(r.DelayMail(ctx, kept.ID, kept.Due+time.Hour.Milliseconds(), ""))
	r.shift.Add(int64(store.MailTest.Life()) - int64(time.Hour))
	late := r.mail("late@shop.example")
	if n, err := r.ExpireMails(ctx, "no server"); err != nil || n != 0 {
		t.Errorf("an hour too early: %d %v", n, err)
	}
	r.shift.Add(int64(time.Hour))
	if n, err := r.ExpireMails(ctx, "no server"); err != nil || n != store.MaxMails-1 {
		t.Errorf("%d %v", n, err)
	}
	if got := r.next(1, store.MaxDeadMails); got.ID != late.ID {
		t.Errorf("%+v", got)
	}
	if n, err := r.ExpireMails(ctx, "no server"); err != nil || n != 0 {
		t.Errorf("a second time: %d %v", n, err)
	}
	r.shift.Add(int64(time.Minute))
	r.must(r.GiveUpMail(ctx, late.ID, "550 no"))
	r.next(0, store.MaxDeadMails)
	dead, err := r.Cold().DeadMails(ctx)
	if err != nil || len(dead) != store.MaxMailsOfPage || dead[0].ID != late.ID || dead[1].Error != "no server" {
		t.Errorf("%d %v", len(dead), err)
	}
	last := r.mail("last@shop.example")
	r.shift.Add(int64(store.KeepDeadMails + time.Millisecond)) // no time passes by itself on a quick machine
	r.must(r.GiveUpMail(ctx, last.ID, "550 no"))
	r.next(0, 1)
}

// testMailGoesWithItsChat: what is deleted leaves no mail about it.
func testMailGoesWithItsChat(t *testing.T, r *rig) {
	ctx := t.Context()
	conv := r.assigned(r.visitor(), r.lin)
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	waits, err := r.QueueMail(ctx, store.Mail{Kind: store.MailTest, To: "a@shop.example", Conv: conv.ID})
	r.must(err)
	gone, err := r.QueueMail(ctx, store.Mail{Kind: store.MailTest, To: "a@shop.example", Conv: conv.ID})
	r.must(err)
	r.must(r.GiveUpMail(ctx, gone.ID, "550 no"))
	other := r.mail("other@shop.example")
	r.shift.Add(int64(time.Hour))
	if got := r.next(2, 1); got.ID != waits.ID {
		t.Errorf("%+v", got)
	}
	if d, err := r.DropClosed(ctx, r.site.ID, time.Now().Add(2*time.Hour).UnixMilli(), 100); err != nil || d.Conversations != 1 {
		t.Fatalf("%+v %v", d, err)
	}
	if got := r.next(1, 0); got.ID != other.ID {
		t.Errorf("%+v", got)
	}
	if m, err := r.QueueMail(ctx, store.Mail{Kind: store.MailTranscript, To: "a@shop.example", Conv: conv.ID}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("asked for when it was gone: %+v %v", m, err)
	}
	if upto, err := r.SealMail(ctx, other.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("one that collects nothing is sealed: %d %v", upto, err)
	}
}
