package bot

import (
	"os"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// The settings in the documentation are accepted.
func TestDocumentedSettings(t *testing.T) {
	text, err := os.ReadFile("../../docs/desk-bots.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, part := range strings.Split(string(text), "```json\n")[1:] {
		config, _, _ := strings.Cut(part, "```")
		kind := store.BotRules
		if strings.Contains(config, `"secret"`) {
			kind = store.BotWebhook
		} else if strings.Contains(config, `"model"`) {
			kind = store.BotAssistant
		}
		if err := Check(kind, config); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		checked++
	}
	if checked != 3 {
		t.Errorf("%d settings in the documentation, want 3", checked)
	}
}
