package bot

import (
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

func TestRules(t *testing.T) {
	for name, c := range map[string]struct {
		turn    Turn
		handoff bool
		buttons int
		says    string
	}{
		"greeting":              {Turn{Opening: true}, false, 2, "Hello!"},
		"greeting in Chinese":   {Turn{Opening: true, Locale: "zh-CN"}, false, 2, "您好"},
		"human":                 {Turn{Text: "human"}, true, 0, "person"},
		"HUMAN, please!":        {Turn{Text: "HUMAN, please!"}, true, 0, "person"},
		"agent in a sentence":   {Turn{Text: "can I speak to an agent?"}, true, 0, "person"},
		"chinese word":          {Turn{Text: "我要转人工服务"}, true, 0, "人工"},
		"button":                {Turn{Text: "Talk to a person", Payload: "human"}, true, 0, "person"},
		"not a word of its own": {Turn{Text: "humanity and reagents"}, false, 2, "did not understand"},
		"something else":        {Turn{Text: "where is my parcel"}, false, 2, "did not understand"},
		"hours":                 {Turn{Text: "When do you answer?", Payload: "hours"}, false, 1, "any time"},
		"other chinese":         {Turn{Text: "你好"}, false, 2, "没有听懂"},
	} {
		r, err := Default().Reply(t.Context(), c.turn)
		if err != nil || r.Handoff != c.handoff || len(r.Say) != 1 || len(r.Say[0].Buttons) != c.buttons || !strings.Contains(r.Say[0].Body, c.says) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if r.Handoff == (r.Reason == "") || len(r.Say) > store.MaxBotMessages {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
