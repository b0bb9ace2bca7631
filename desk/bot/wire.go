package bot

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/store"
)

// Header fields of a turn and of its answer by callback.
const (
	HeaderTimestamp = "Eddy-Timestamp" // seconds since 1970
	HeaderSignature = "Eddy-Signature" // "v1=" and the hexadecimal HMAC-SHA256 of timestamp, "." and body
	HeaderTurn      = "Eddy-Turn"
)

const (
	// MaxReplyBytes bounds what a bot may answer, at once or by callback.
	MaxReplyBytes = 64 << 10
	// SignatureAge is how old, or ahead, the timestamp of a callback may be.
	SignatureAge = 5 * time.Minute

	maxValueBytes   = 256 // of a button, as of the payload of a message
	maxSummaryChars = 4000
	maxHistoryBytes = 64 << 10 // of text in the history of a turn
)

// ErrSignature refuses a callback whose signature or timestamp is wrong.
var ErrSignature = errors.New("bot: the signature is wrong")

// Sign returns the signature of a body at a time in seconds since 1970.
func Sign(secret string, timestamp int64, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(m, "%d.", timestamp) // a hash takes everything
	_, _ = m.Write(body)
	return "v1=" + hex.EncodeToString(m.Sum(nil))
}

// Verify checks the header fields of a callback. The error is ErrSignature with the reason.
func Verify(secret, timestamp, signature string, body []byte, now time.Time) error {
	at, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s %q is no number of seconds", ErrSignature, HeaderTimestamp, timestamp)
	}
	if age := now.Sub(time.Unix(at, 0)); age > SignatureAge || age < -SignatureAge {
		return fmt.Errorf("%w: %s is %v off, the limit is %v", ErrSignature, HeaderTimestamp, age.Round(time.Second), SignatureAge)
	}
	if secret == "" || !hmac.Equal([]byte(signature), []byte(Sign(secret, at, body))) {
		return ErrSignature
	}
	return nil
}

// wireTurn is the body of a request to a webhook bot.
type wireTurn struct {
	Turn         string        `json:"turn"`
	Conversation string        `json:"conversation"`
	Epoch        int64         `json:"epoch"`
	Opening      bool          `json:"opening"`
	Locale       string        `json:"locale"`
	Message      *wireMessage  `json:"message,omitempty"`
	History      []wireMessage `json:"history"`
	Contact      wireContact   `json:"contact"`
}

type wireMessage struct {
	From    string `json:"from,omitempty"`
	Text    string `json:"text"`
	Payload string `json:"payload,omitempty"`
	Time    int64  `json:"time,omitempty"`
}

type wireContact struct {
	Attributes map[string]string `json:"attributes"`
}

// encodeTurn makes the body of a request: what the settings allow, as far as it fits.
func (c *WebhookConfig) encodeTurn(t *Turn) ([]byte, error) {
	w := wireTurn{
		Turn: t.ID, Conversation: t.Conv, Epoch: t.Epoch, Opening: t.Opening, Locale: t.Locale,
		History: []wireMessage{}, Contact: wireContact{make(map[string]string)},
	}
	if !t.Opening {
		w.Message = &wireMessage{Text: t.Text, Payload: t.Payload}
	}
	for _, a := range c.Attributes {
		if v, ok := t.Attributes[a]; ok {
			w.Contact.Attributes[a] = v
		}
	}
	room := maxHistoryBytes
	var newest []wireMessage
	for i := len(t.History) - 1; i >= 0 && len(newest) < c.History; i-- {
		e := &t.History[i]
		if e.ID == t.ID || (e.Kind != store.KindText && e.Kind != store.KindFile) {
			continue // the message itself, state changes, and notes, which are not for strangers
		}
		if room -= len(e.Body); room < 0 {
			break
		}
		newest = append(newest, wireMessage{From: string(e.From.Kind), Text: e.Body, Payload: e.Payload, Time: e.Time})
	}
	for i := len(newest) - 1; i >= 0; i-- {
		w.History = append(w.History, newest[i])
	}
	return json.Marshal(w)
}

// wireReply is the answer of a webhook bot.
type wireReply struct {
	Messages []struct {
		Text    string         `json:"text"`
		Buttons []store.Button `json:"buttons"`
	} `json:"messages"`
	Handoff bool   `json:"handoff"`
	Reason  string `json:"reason"`
	Summary string `json:"summary"`
}

// DecodeReply reads the answer of a webhook bot. Messages beyond store.MaxBotMessages are cut off and counted. Exceeding
// any other limit is an error, because half a sentence is worse than a person.
func DecodeReply(body []byte) (r Reply, cut int, err error) {
	if len(body) > MaxReplyBytes {
		return r, 0, fmt.Errorf("bot: an answer of %d bytes, the limit is %d", len(body), MaxReplyBytes)
	}
	if !utf8.Valid(body) {
		return r, 0, errors.New("bot: the answer is not UTF-8")
	}
	var w wireReply
	if err := json.Unmarshal(body, &w); err != nil {
		return r, 0, fmt.Errorf("bot: the answer is not the JSON it should be: %w", err)
	}
	if cut = len(w.Messages) - store.MaxBotMessages; cut > 0 {
		w.Messages = w.Messages[:store.MaxBotMessages]
	}
	for i, m := range w.Messages {
		if n := utf8.RuneCountInString(m.Text); n == 0 || n > MaxSayChars {
			return r, 0, fmt.Errorf("bot: messages[%d] has %d characters, want 1 up to %d", i, n, MaxSayChars)
		}
		if len(m.Buttons) > MaxButtons {
			return r, 0, fmt.Errorf("bot: messages[%d] has %d buttons, the limit is %d", i, len(m.Buttons), MaxButtons)
		}
		for j, b := range m.Buttons {
			if n := utf8.RuneCountInString(b.Label); n == 0 || n > MaxLabelChars || b.Value == "" || len(b.Value) > maxValueBytes {
				return r, 0, fmt.Errorf("bot: messages[%d].buttons[%d]: want a label of 1 up to %d characters and a value of 1 up to %d bytes",
					i, j, MaxLabelChars, maxValueBytes)
			}
		}
		r.Say = append(r.Say, store.Say{Body: m.Text, Buttons: m.Buttons})
	}
	r.Handoff = w.Handoff
	if w.Handoff {
		r.Reason, r.Summary = shorten(w.Reason, maxReasonChars), shorten(w.Summary, maxSummaryChars)
		if r.Reason == "" {
			r.Reason = "the bot asked for a person"
		}
	}
	return r, max(cut, 0), nil
}
