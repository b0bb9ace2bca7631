package storetest

import (
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// testAnswers: what agents write to a customer who has left a message is queued as a mail, with the message, until the
// mail is made; then in another one.
func testAnswers(t *testing.T, r *rig) {
	conv := r.do(leave(r.visitor(), "Where is my parcel?")).Conv
	lin := r.lin.Actor()
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: lin})
	r.next(0, 0)
	first := r.do(text(conv.ID, lin, "on its way"))
	again := text(conv.ID, lin, "and soon there")
	r.do(again)
	r.do(again)
	m := r.next(1, 0)
	if m.Kind != store.MailAnswers || m.To != annsMail || m.Conv != conv.ID || m.First != first.Events[0].PSeq || m.Upto != 0 || m.Due != m.Created+store.AnswerDelay.Milliseconds() {
		t.Errorf("%+v", m)
	}
	upto, err := r.SealMail(t.Context(), m.ID)
	if err != nil || upto != r.head(conv.ID).LastPSeq {
		t.Errorf("%d %v", upto, err)
	}
	third := r.do(text(conv.ID, lin, "one more"))
	r.must(r.MailSent(t.Context(), m.ID))
	if got := r.next(1, 0); got.First != third.Events[0].PSeq {
		t.Errorf("%+v", got)
	}
	plain := r.assigned(r.visitor(), r.lin)
	r.do(text(plain.ID, lin, "no mail"))
	r.next(1, 0)
}
