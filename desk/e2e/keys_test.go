package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestAdministratorConnectsAProgram makes an API key in the pages. A program
// writes into a chat with it, which customer and agent see, until the key is
// revoked.
func TestAdministratorConnectsAProgram(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	boss := b.open("boss", desktop, 800, d.url("/console"))
	login(boss, d.login, d.password)
	boss.visible("console")
	customer := b.stranger("customer", phone, 740, d.url("/chat/demo"))
	customer.click("talk-to-person")
	customer.visible("queue-position")
	boss.click("queue-row")
	boss.click("take")
	boss.visible("composer")

	pages := b.open("keys", desktop, 800, d.url("/admin/keys"))
	pages.visible("empty")
	pages.click("new")
	pages.click("save")
	pages.visible("error-scopes")
	look(pages, "key-errors")
	pages.fill("field-name", "Shop")
	pages.click("scope-read")
	pages.click("scope-send")
	pages.click("save")
	pages.visible("once-text")
	key := pages.text("once-text")
	look(pages, "key-made")
	pages.reload()
	pages.gone("once-text")

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, path, body string) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, d.url("/api/v1"+path), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Idempotency-Key", "parcel")
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, data
	}
	var page struct{ Conversations []struct{ ID string } }
	if status, data := ask("GET", "/conversations?state=assigned", ""); status != http.StatusOK || json.Unmarshal(data, &page) != nil || len(page.Conversations) != 1 {
		t.Fatalf("%d %s", status, data)
	}
	messages := "/conversations/" + page.Conversations[0].ID + "/messages"
	if status, data := ask("POST", messages, `{"text":"Your parcel <b>has left</b>."}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, data)
	}
	line := `[...document.querySelectorAll('[data-testid="system"]')].some((n) => n.textContent.startsWith(%q))`
	customer.until("the customer reads it", strings.Replace(line, "%q", `'Your parcel <b>has left</b>.'`, 1))
	boss.until("the agent reads whose it is", strings.Replace(line, "%q", `'Shop (program): Your parcel'`, 1))
	boss.send("And I am still here.")
	look(boss, "program-message")

	pages.click("revoke")
	pages.until("it is revoked", node("done")+`?.textContent.includes('Revoked') && document.readyState === 'complete'`)
	look(pages, "key-revoked")
	if status, data := ask("GET", "/conversations", ""); status != http.StatusUnauthorized {
		t.Errorf("with a revoked key: %d %s", status, data)
	}
	for _, p := range []*tab{boss, customer, pages} {
		p.clean()
	}
}
