package api

import (
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// A row of a list says how a chat stands: its site by key, its priority by name, and until when it is put aside.
func TestConversationRow(t *testing.T) {
	c := store.Conversation{ID: "k", Site: "s", State: store.Assigned, Priority: store.PriorityUrgent, SnoozedUntil: 7}
	row := conversation(&c, map[string]string{"s": "shop"})
	if row.Site != "shop" || row.Priority != "urgent" || row.Snoozed != 7 || row.Tags == nil {
		t.Errorf("%+v", row)
	}
}
