package hub

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/mask"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// become makes the identity that of the account a as it is now.
func (i *identity) become(a store.AgentAccount) {
	i.actor, i.role, i.capacity, i.noChats = a.Actor(), a.Role, a.Capacity, a.NoChats
	i.masked = !a.Role.Can(perm.Private)
}

// view returns a frame as the session may see it. Staff without the permission see no telephone numbers, addresses and
// card numbers. Every frame passes through view, so no reply or event can be forgotten.
func (s *Session) view(frame []byte) []byte {
	who := s.ident.Load()
	if who == nil || !who.masked {
		return frame
	}
	return maskFrame(frame)
}

// maskFrame is Mask for a frame. A frame that cannot be read is not shown.
func maskFrame(frame []byte) []byte {
	out, err := Mask(frame)
	if err != nil {
		return []byte(`{"t":"err","d":{"code":"internal","text":"this cannot be shown"}}`)
	}
	return out
}

// Mask hides private text in every string of a JSON object, except in the protocol's own fields. Staff and programs that
// may not see telephone numbers, addresses and card numbers get everything through Mask.
func Mask(object []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(maskValue(v))
}

func maskValue(v any) any {
	switch v := v.(type) {
	case string:
		if isUUID(v) {
			return v
		}
		return mask.Text(v)
	case []any:
		for i := range v {
			v[i] = maskValue(v[i])
		}
	case map[string]any:
		for key, field := range v {
			if known, ok := field.(map[string]any); ok && (key == "attributes" || key == "fields") {
				for name := range known { // the names are not the protocol's
					if text, ok := known[name].(string); ok {
						known[name] = mask.Text(text)
					}
				}
				continue
			}
			if !structural(key) {
				v[key] = maskValue(field)
			}
		}
	}
	return v
}

// structural names the fields whose texts are the server's own: ids, cursors, links.
func structural(key string) bool {
	switch key {
	case "t", "re", "c", "id", "client_id", "session", "store", "cursor", "links", "kind", "state", "event":
		return true
	}
	return false
}

func isUUID(s string) bool {
	if len(s) != 36 || strings.Count(s, "-") != 4 {
		return false
	}
	_, err := uuid.Parse(s)
	return err == nil
}
