package bot

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-eddy/eddy/desk/mask"
	"github.com/go-eddy/eddy/desk/store"
)

// wirePrompt is the body of a request for a completion of a chat.
type wirePrompt struct {
	Model       string        `json:"model"`
	Messages    []wireSaid    `json:"messages"`
	Stream      bool          `json:"stream"`
	Options     streamOptions `json:"stream_options"`
	MaxTokens   int           `json:"max_tokens"`
	Temperature *float64      `json:"temperature,omitempty"`
	Tools       []wireTool    `json:"tools,omitempty"`
}

type streamOptions struct {
	Usage bool `json:"include_usage"`
}

type wireSaid struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// handoffTool is the function by which a model asks for a person.
const handoffTool = "handoff"

// prompt makes the body of a request. It holds the settings and messages that the customer sees, and nothing else of the
// conversation or of the contact.
func (c *AssistantConfig) prompt(t *Turn) ([]byte, error) {
	w := wirePrompt{
		Model: c.Model, Stream: true, Options: streamOptions{Usage: true}, MaxTokens: c.MaxTokens, Temperature: c.Temperature,
		Messages: []wireSaid{{"system", c.instructions()}},
	}
	if c.Tool {
		w.Tools = []wireTool{{"function", wireFunction{handoffTool, "Passes the customer to a person.",
			json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}}}`)}}}
	}
	w.Messages = append(w.Messages, c.said(t)...)
	w.Messages = append(w.Messages, wireSaid{"user", c.hide(t.Text)})
	return json.Marshal(w)
}

// instructions returns what the model is told before the conversation.
func (c *AssistantConfig) instructions() string {
	parts := []string{c.System}
	if c.Knowledge != "" {
		parts = append(parts, "What you know:\n"+c.Knowledge)
	}
	ask := "write " + c.Marker + " and nothing else"
	if c.Tool {
		ask = "call the function " + handoffTool + ", or " + ask
	}
	parts = append(parts, fmt.Sprintf("If the customer wants a person, or you cannot help, %s.", ask))
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n\n")
}

// said returns the newest messages before the one that is to be answered, oldest first, as far as they fit.
func (c *AssistantConfig) said(t *Turn) []wireSaid {
	room := maxHistoryBytes
	var newest []wireSaid
	asked := slices.IndexFunc(t.History, func(e store.Event) bool { return e.ID == t.ID })
	for i := len(t.History) - 1; i >= 0 && len(newest) < c.History; i-- {
		e := &t.History[i]
		later := asked >= 0 && i >= asked && e.From.Kind == store.Customer // has a turn of its own
		if later || e.Body == "" || (e.Kind != store.KindText && e.Kind != store.KindFile) {
			continue
		}
		if room -= len(e.Body); room < 0 {
			break
		}
		role := "assistant"
		if e.From.Kind == store.Customer {
			role = "user"
		}
		newest = append(newest, wireSaid{role, c.hide(e.Body)})
	}
	slices.Reverse(newest)
	return newest
}

// hide hides telephone numbers, e-mail addresses and card numbers, unless the settings let them out.
func (c *AssistantConfig) hide(s string) string {
	if c.Unmasked {
		return s
	}
	return mask.Text(s)
}

// tokensOf estimates how many tokens a text has: four letters of ASCII, or one of any other script.
func tokensOf[T string | []byte](text T) int64 {
	var ascii, other int64
	for _, r := range string(text) {
		if r < 0x80 {
			ascii++
		} else {
			other++
		}
	}
	return (ascii+3)/4 + other
}
