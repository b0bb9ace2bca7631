package http1

import (
	"fmt"
	"net/http"
)

// requestError says why a request cannot be served: the status of the answer and
// a sentence. The sentence goes to the peer too, so it never repeats the peer's
// own bytes.
type requestError struct {
	status int
	msg    string
}

// Error implements error.
func (e *requestError) Error() string {
	return fmt.Sprintf("http1: %s (%d)", e.msg, e.status)
}

func badRequest(msg string) *requestError {
	return &requestError{http.StatusBadRequest, msg}
}

func tooLarge(status int, what string, limit int64) *requestError {
	return &requestError{status, fmt.Sprintf("%s over the limit of %d", what, limit)}
}
