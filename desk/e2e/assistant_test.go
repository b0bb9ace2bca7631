package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// TestCustomerSeesTextGrow: the customer reads what a language model writes while it writes, and one marked message in
// the end.
func TestCustomerSeesTextGrow(t *testing.T) {
	goOn := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range []string{"Parcels ", "take ", "two days."} {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", piece)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-goOn:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(model.Close)
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.change(func(ctx context.Context, db *sqlstore.DB, site store.Site) {
		ada, err := db.CreateBot(ctx, store.BotAccount{Name: "Ada", Kind: store.BotAssistant, Config: fmt.Sprintf(
			`{"url":%q,"model":"m","allow_private":true,"greeting":{"en":"Hello, I am Ada."},"limits":{"first_ms":120000,"idle_ms":120000}}`, model.URL)})
		if site.Bot = ada.ID; err == nil {
			err = db.UpdateSite(ctx, site)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	p := b.open("page", phone, 740, d.url("/chat/demo"))
	p.until("the assistant greets first", node("message-text")+`?.textContent === 'Hello, I am Ada.'`)
	p.send("When does it come?")
	p.visible("typing")
	goOn <- struct{}{}
	p.until("the beginning is there, marked", node("partial-message")+`?.textContent.includes('Parcels take') && `+node("generated")+` !== undefined`)
	p.shot("grows")
	goOn <- struct{}{}
	goOn <- struct{}{}
	p.until("there is one message", `!`+node("partial-message")+` && [...document.querySelectorAll('[data-testid="message-text"]')].filter((n) => n.textContent === 'Parcels take two days.').length === 1`)
	p.until("it is marked", node("generated")+`.textContent.startsWith('Automatic answer')`)
	p.clean()
}
