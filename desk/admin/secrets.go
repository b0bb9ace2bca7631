package admin

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-eddy/eddy/desk/store"
)

// newSecret returns a secret for signatures.
func newSecret() string { return rand.Text() + rand.Text() }

// hidden returns the beginnings of secrets.
func hidden(secrets []string) []string {
	shown := make([]string, len(secrets))
	for i, s := range secrets {
		shown[i] = s[:min(4, len(s))] + "…"
	}
	return shown
}

// rotated changes secrets as the form asks: it puts a new one before the newest, which stays valid, or removes one while
// more than least are left. It returns the new one, and what was done. ok is false if the answer has been given.
func (q *request) rotated(old []string, least int) (secrets []string, fresh, done string, ok bool) {
	at, err := strconv.Atoi(q.Value("remove"))
	switch {
	case q.Value("new") != "":
		fresh = newSecret()
		return append([]string{fresh}, old[:min(len(old), store.MaxSecrets-1)]...), fresh, "created", true
	case err == nil && at >= 0 && at < len(old) && len(old) > least:
		return slices.Delete(slices.Clone(old), at, at+1), "", "removed", true
	}
	q.fail(http.StatusBadRequest, "error.form")
	return nil, "", "", false
}
