package admin

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// onceShown keeps secrets from the POST that made them to the page that shows them. A secret is shown once, to the login
// that made it.
type onceShown struct {
	now func() time.Time

	mu   sync.Mutex
	kept map[string]secret
}

type secret struct {
	text  string
	login store.Token
	until time.Time
}

const (
	maxOnce  = 64
	onceLife = 2 * time.Minute
)

func newOnceShown(now func() time.Time) *onceShown {
	return &onceShown{now: now, kept: make(map[string]secret)}
}

// keep returns the name under which a text may be fetched once. When too many wait, the one that ends first is dropped.
func (o *onceShown) keep(login store.Token, text string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, first := o.now(), ""
	for name, s := range o.kept {
		if !s.until.After(now) {
			delete(o.kept, name)
		} else if first == "" || s.until.Before(o.kept[first].until) {
			first = name
		}
	}
	if len(o.kept) >= maxOnce {
		delete(o.kept, first)
	}
	name := rand.Text()
	o.kept[name] = secret{text, login, now.Add(onceLife)}
	return name
}

// fetch returns a text and forgets it. It returns "" if there is no such text, or it is too old or another login's.
func (o *onceShown) fetch(login store.Token, name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.kept[name]
	if !ok || s.login != login {
		return ""
	}
	delete(o.kept, name)
	if !s.until.After(o.now()) {
		return ""
	}
	return s.text
}

// seeOnce redirects to a page that shows a secret once.
func (q *request) seeOnce(page, done, text string) {
	q.see(page+"?once="+q.p.once.keep(q.me.Token, text)+"&done="+done, "")
}

// shown fetches the text that this page shows once.
func (q *request) shown() {
	if name := q.r.URL.Query().Get("once"); name != "" {
		q.Once = q.p.once.fetch(q.me.Token, name)
	}
}

// once is a secret as the page shows it.
type once struct{ Title, Text, Help string }

// Shown describes the secret of this page, if it has one.
func (q *request) Shown(title string) once { return once{q.T(title), q.Once, q.T("once.help")} }
