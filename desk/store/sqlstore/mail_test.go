package sqlstore

import (
	"errors"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// TestAnswers: what agents write to a customer who waits for answers by mail is queued with it, a minute's worth in one
// mail, and only while mail is on. Nothing else is.
func TestAnswers(t *testing.T) {
	for _, on := range []bool{true, false} {
		r := newRig(t, Options{Mail: on})
		ctx, lin := t.Context(), r.agent.Actor()
		conv := r.open(true)
		r.must(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: lin})
		say := func(e store.Event, to string) uint64 {
			t.Helper()
			var pseq uint64
			if err := r.write(ctx, func(t *tx) error {
				d, err := t.load(conv.ID)
				if err == nil {
					err = t.add(d, e)
				}
				if err == nil {
					pseq = d.LastPSeq
					err = t.mailAnswer(d, &d.events[0], to)
				}
				if err == nil {
					_, err = t.save(d)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return pseq
		}
		answer := store.Event{Kind: store.KindText, From: lin, Body: "yes"}
		const ann = "ann@example.com"
		for name, e := range map[string]store.Event{
			"a note": {Kind: store.KindNote, From: lin, Body: "x"}, "a notice": {Kind: store.KindNotice, From: store.Actor{Kind: store.System}, Body: "x"},
			"a bot": {Kind: store.KindText, From: store.Actor{Kind: store.Bot, ID: "b"}, Body: "x"}, "the customer": {Kind: store.KindText, From: r.contact.Actor(), Body: "x"},
		} {
			say(e, ann)
			if n, err := r.Cold().MailCounts(ctx); err != nil || n.Queued != 0 {
				t.Fatalf("%s: %+v %v", name, n, err)
			}
		}
		say(answer, "")
		first := say(answer, ann)
		say(answer, ann)
		n, err := r.Cold().MailCounts(ctx)
		if want := map[bool]int{true: 1}[on]; err != nil || n.Queued != want {
			t.Fatalf("%+v %v", n, err)
		}
		if !on {
			continue
		}
		m, err := r.Cold().NextMail(ctx)
		if err != nil || m.Kind != store.MailAnswers || m.To != ann || m.Conv != conv.ID || m.First != first || m.Upto != 0 || m.Due != m.Created+store.AnswerDelay.Milliseconds() {
			t.Errorf("%+v %v", m, err)
		}
		upto, err := r.SealMail(ctx, m.ID)
		if err != nil || upto != first+1 {
			t.Errorf("%d %v, want %d", upto, err, first+1)
		}
		third := say(answer, ann)
		if again, err := r.SealMail(ctx, m.ID); err != nil || again != upto {
			t.Errorf("sealed twice: %d %v", again, err)
		}
		if err := r.MailSent(ctx, m.ID); err != nil {
			t.Fatal(err)
		}
		if m, err = r.Cold().NextMail(ctx); err != nil || m.First != third || m.Upto != 0 {
			t.Errorf("%+v %v", m, err)
		}
		if err := r.GiveUpMail(ctx, m.ID, "550 no"); err != nil {
			t.Fatal(err)
		}
		say(answer, ann)
		if next, err := r.Cold().NextMail(ctx); err != nil || next.ID == m.ID || next.First != third+1 {
			t.Errorf("%+v %v", next, err)
		}
	}
}

// TestTranscriptOnItsWay: who asks for a chat by mail while an earlier mail with it is just being sent gets one more. A
// mail that could not be sent collects again, so that those who ask meanwhile get one.
func TestTranscriptOnItsWay(t *testing.T) {
	r := newRig(t, Options{Mail: true})
	ctx := t.Context()
	conv := r.open(true)
	queue := func() store.Mail {
		t.Helper()
		m, err := r.QueueMail(ctx, store.Mail{Kind: store.MailTranscript, To: "ann@shop.example", Conv: conv.ID})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := queue()
	if again := queue(); again.ID != first.ID {
		t.Error("two mails of one text wait")
	}
	if upto, err := r.SealMail(ctx, first.ID); err != nil || upto != conv.LastPSeq {
		t.Errorf("%d %v", upto, err)
	}
	second := queue()
	if second.ID == first.ID {
		t.Fatal("what was asked for while the first mail was on its way is lost")
	}
	if err := r.MailSent(ctx, first.ID); err != nil {
		t.Fatal(err)
	}
	for name, back := range map[string]func() error{
		"delayed": func() error { return r.DelayMail(ctx, second.ID, 1, "450 not now") },
		"tried again": func() error {
			return errors.Join(r.GiveUpMail(ctx, second.ID, "550 no"), r.RetryMail(ctx, second.ID))
		},
	} {
		if _, err := r.SealMail(ctx, second.ID); err != nil {
			t.Fatal(err)
		}
		if err := back(); err != nil {
			t.Fatal(err)
		}
		if again := queue(); again.ID != second.ID {
			t.Errorf("%s: two mails of one text wait", name)
		}
	}
}
