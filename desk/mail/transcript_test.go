package mail

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/store"
)

// TestLongTranscript: of a chat that is longer than a mail may be the last messages are sent, and the mail says so.
func TestLongTranscript(t *testing.T) {
	r := newPostRig(t)
	ctx := t.Context()
	if _, err := r.db.CreateSite(ctx, store.Site{Key: "demo", Name: "Shop\r\nBcc: eve@evil.example"}); err == nil {
		t.Fatal("a name of two lines was taken")
	}
	site, err := r.db.CreateSite(ctx, store.Site{Key: "demo", Name: "Shop"})
	if err != nil {
		t.Fatal(err)
	}
	ann, err := r.db.CreateVisitor(ctx, site, store.Token{1}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	do := func(cmd store.Command) store.Conversation {
		t.Helper()
		done := make(chan store.Outcome, 2)
		r.db.Do(cmd, time.Now().Add(time.Hour), func(out store.Outcome) { done <- out })
		out := <-done
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		return out.Conv
	}
	conv := do(store.Open{Contact: ann, Human: true})
	const messages = 60
	for i := range messages {
		do(store.Append{Conv: conv.ID, From: ann.Actor(), ClientID: uuid.NewString(), Body: fmt.Sprintf("message %d. %s", i, strings.Repeat("ü", 4000))})
	}
	if _, err := r.db.QueueMail(ctx, store.Mail{Kind: store.MailTranscript, To: "ann@shop.example", Conv: conv.ID}); err != nil {
		t.Fatal(err)
	}
	same, err := r.db.QueueMail(ctx, store.Mail{Kind: store.MailTranscript, To: "ann@shop.example", Conv: conv.ID})
	if err != nil || same.Attempts != 0 {
		t.Fatal(err)
	}
	r.want("one mail", r.after(0), "ann")
	body := r.said[0].Body
	if !strings.Contains(body, "(Earlier messages are left out.)") || strings.Contains(body, "message 0.") || len(body) > MaxBody || len(body) < maxLines/2 {
		t.Errorf("%d bytes: %.200s", len(body), body)
	}
	if at := strings.Index(body, "message 58."); at < 0 || strings.Index(body, "message 59.") < at {
		t.Error("the last messages are not there in order")
	}
}
