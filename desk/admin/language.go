package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
)

const languageCookie = "desk-language"

// languages returns the languages of the pages, with their own names.
func languages() map[string]string {
	return map[string]string{"en": "English", "zh-CN": "简体中文"}
}

// Languages returns the tags of the languages, in order.
func (q *request) Languages() []string { return []string{"en", "zh-CN"} }

// language chooses the language of a page: the one chosen on it, else that of the account, else that of the browser.
func language(r *http.Request, a store.AgentAccount) string {
	if c, err := r.Cookie(languageCookie); err == nil && languages()[c.Value] != "" {
		return c.Value
	}
	if languages()[a.Locale] != "" {
		return a.Locale
	}
	for part := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		switch tag := strings.ToLower(strings.TrimSpace(part)); {
		case strings.HasPrefix(tag, "zh"):
			return "zh-CN"
		case strings.HasPrefix(tag, "en"):
			return "en"
		}
	}
	return "en"
}

// language stores the choice of the page's reader and goes back to the page of the choice.
func (p *Pages) language(q *request) {
	if lang := q.Value("lang"); languages()[lang] != "" {
		http.SetCookie(q.w, &http.Cookie{Name: languageCookie, Value: lang, Path: "/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteLaxMode})
	}
	back := "/admin"
	if u, err := url.Parse(q.Value("back")); err == nil && u.Scheme == "" && u.Host == "" && (u.Path == "/admin" || strings.HasPrefix(u.Path, "/admin/")) {
		back = u.RequestURI()
	}
	q.see(back, "")
}

func hasText(key string) bool { return english()[key] != "" }

// text returns a text. A key without a text shows itself.
func text(lang, key string, args ...any) string {
	s := english()[key]
	if lang == "zh-CN" && chinese()[key] != "" {
		s = chinese()[key]
	}
	if s == "" {
		return key
	}
	if len(args) > 0 {
		return fmt.Sprintf(s, args...)
	}
	return s
}
