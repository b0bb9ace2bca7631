package http1

import (
	"fmt"
	"net/http"
)

// requestError is a request that cannot be served: the status that answers it
// and the sentence that says why. The sentence is for the peer too, so it never
// repeats the peer's own bytes.
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
