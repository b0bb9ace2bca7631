package mail

import (
	"context"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/store"
)

// reset is the mail with the link by which somebody sets a new password. The token in it is made now, so that it lies
// nowhere on the way; the store knows its hash.
func (t *texts) reset(ctx context.Context, m store.Mail) (Letter, error) {
	a, err := t.store.Cold().AgentByID(ctx, m.Agent)
	if err != nil {
		return Letter{}, err
	}
	token, hash := auth.NewToken()
	if err := t.store.NewReset(ctx, a.ID, m.To, hash); err != nil {
		return Letter{}, err
	}
	link := t.publicURL + "/reset#" + token
	return Letter{
		Subject: text(m.Locale, "reset.subject"),
		Body:    text(m.Locale, "reset.body", line(a.Name, maxName), line(a.Login, maxName), link, int(store.ResetLife.Minutes())),
	}, nil
}
