package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	lookFresh   = "public, max-age=300" // how old the look of a button may be
	widgetWords = "widget."             // beginning of the texts that only the loader says
)

// look is what the loader draws with before there is a chat.
type look struct {
	Side      string            `json:"side,omitempty"`
	Color     string            `json:"color,omitempty"`
	Words     map[string]string `json:"words,omitempty"` // of a language that the loader does not speak itself
	Dir       string            `json:"dir,omitempty"`   // of that language
	Proactive []proactive       `json:"proactive,omitempty"`
}

type proactive struct {
	ID string `json:"id"`
	store.Proactive
}

// widgetLook says how a site's button looks, and when it speaks first. The answer is a script, because the policies of
// pages that have the loader allow scripts of this server. It knows nothing of the visitor and makes no row.
func (f *Front) widgetLook(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	site, err := f.store.Hot().SiteByKey(ctx, r.PathValue("site"))
	switch {
	case errors.Is(err, store.ErrNotFound):
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such site."})
		return
	case err != nil:
		f.storeProblem(w, err)
		return
	}
	l := look{Side: site.Settings.Look.Side, Color: site.Settings.Color}
	for _, v := range site.Settings.Look.Proactive {
		l.Proactive = append(l.Proactive, proactive{v.ID(), v})
	}
	l.Words, l.Dir = f.widgetWords(r.FormValue("locale"))
	entered, err := json.Marshal(l) // escapes what could end a script
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cache-Control", lookFresh)
	_, _ = fmt.Fprintf(w, "EddyDesk.furnish(%s);\n", entered) // a failing connection closes itself
}

// widgetWords returns the loader's texts in a language from a file, and the direction of its lines. A language without
// such a file has none.
func (f *Front) widgetWords(wanted string) (words map[string]string, dir string) {
	name, _, _ := strings.Cut(wanted, "-")
	for _, tag := range []string{wanted, name} {
		l, ok := f.languages[tag]
		if !ok {
			continue
		}
		words = make(map[string]string)
		for key, text := range l.Texts {
			if short, ok := strings.CutPrefix(key, widgetWords); ok {
				words[short] = text
			}
		}
		return words, l.Dir
	}
	return nil, ""
}
