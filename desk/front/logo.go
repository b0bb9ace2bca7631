package front

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// logoInfo is what a page needs to show a logo without moving anything when it comes.
type logoInfo struct {
	At     string `json:"at"` // changes with the content
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// logoOf returns the logo of a site, nil if it has none.
func logoOf(s *store.Site) *logoInfo {
	if s.Logo.Hash == "" {
		return nil
	}
	return &logoInfo{logoPath(s), s.Logo.Width, s.Logo.Height}
}

// logoPath returns the address of a site's logo on this server.
func logoPath(s *store.Site) string {
	return "/widget/" + url.PathEscape(s.Key) + "/logo/" + s.Logo.Hash
}

// logo sends the logo of a site to everybody. Its address names its content, so that it may be kept for ever.
func (f *Front) logo(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	l, err := f.store.Hot().Logo(ctx, r.PathValue("site"), r.PathValue("hash"))
	switch {
	case errors.Is(err, store.ErrNotFound):
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such logo, or it has been replaced."})
		return
	case err != nil:
		f.storeProblem(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", l.Type)
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", cacheForever)
	h.Set("ETag", `"`+l.Hash+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(l.Content))
}
