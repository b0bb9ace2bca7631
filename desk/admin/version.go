package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
)

// versionField is the field of a form with the version of the thing that the form was made from.
const versionField = "version"

// version stands for the stored state of a thing, as far as its form shows it.
func version(shown url.Values) string {
	sum := sha256.Sum256([]byte(shown.Encode())) // in the order of the names
	return hex.EncodeToString(sum[:16])
}

// show fills the form with the stored values.
func (q *request) show(shown url.Values) {
	q.fill(shown)
	q.set(versionField, version(shown))
}

// outdated reports whether the form was made from an older state, because somebody else has saved meanwhile. The form
// must then be shown again. Saving it once more replaces the present state. A request without a version comes from a
// program, which has seen no form.
func (q *request) outdated(stored url.Values) bool {
	was, now := q.Value(versionField), version(stored)
	if was == "" || was == now {
		return false
	}
	q.wrong(versionField, q.T("error.outdated"))
	q.set(versionField, now)
	return true
}

// status returns the status of a form that is shown again.
func (q *request) status() int {
	if q.Error(versionField) != "" {
		return http.StatusConflict
	}
	return http.StatusUnprocessableEntity
}

// alone waits until nobody else saves, so that nothing changes between the comparison and the change. False means that
// the answer has been given.
func (q *request) alone() (done func(), ok bool) {
	select {
	case q.p.saving <- struct{}{}:
		return func() { <-q.p.saving }, true
	case <-q.ctx().Done():
		q.fail(http.StatusServiceUnavailable, "error.unavailable")
		return nil, false
	}
}
