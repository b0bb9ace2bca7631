package hub

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/proto"
)

// TestDocumentedLimits: docs/desk.md says how much customers and agents may do as the code has it. The number of open
// chats is that of a customer who asks for several.
func TestDocumentedLimits(t *testing.T) {
	page, err := os.ReadFile("../../docs/desk.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## 8. Limits\n")
	r := newRig(t, Options{})
	ann := r.customer()
	for _, wants := range []string{"bot", "human", "human"} {
		r.open(ann, wants)
	}
	open, err := r.db.Cold().OpenConversations(r.ctx)
	r.ok(err)
	l := r.hub.o.Limits
	for _, row := range []string{
		fmt.Sprintf("| a message | %d,%03d characters |", proto.MaxTextChars/1000, proto.MaxTextChars%1000),
		fmt.Sprintf("| a customer | %v message a second, %d at once; %d open chat; %d connections |", l.CustomerMessages.PerSecond, l.CustomerMessages.Burst, len(open), l.CustomerSessions),
		fmt.Sprintf("| an agent | %v messages a second; %d connections |", l.AgentMessages.PerSecond, l.AgentSessions),
	} {
		if !strings.Contains(section, "\n"+row+"\n") {
			t.Errorf("docs/desk.md does not have the row %s", row)
		}
	}
}
