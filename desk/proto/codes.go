package proto

import "time"

// Subprotocol is the WebSocket subprotocol name of this protocol.
const Subprotocol = "im.v1.json"

// Code is the machine-readable part of an error reply.
type Code string

// Error codes of im.v1.
const (
	CodeBadRequest   Code = "bad_request"
	CodeUnknownType  Code = "unknown_type"
	CodeUnauthorized Code = "unauthorized"
	CodeTokenExpired Code = "token_expired"
	CodeForbidden    Code = "forbidden"
	CodeNotFound     Code = "not_found"
	CodeConflict     Code = "conflict"
	CodeTooLarge     Code = "too_large"
	CodeRateLimited  Code = "rate_limited"
	CodeBusy         Code = "busy"
	CodeUnavailable  Code = "unavailable"
	CodeClosed       Code = "closed"
	CodeBlocked      Code = "blocked"
	CodeOutOfOrder   Code = "out_of_order"
	CodeInternal     Code = "internal"
)

// WebSocket close codes used by the server. 4000 to 4099 ask the client to reconnect, 4100 to 4199 tell it not to
// reconnect without a change. 1003 and 1009 are those of RFC 6455 section 7.4.1.
const (
	CloseUnsupportedData = 1003
	CloseTooLarge        = 1009
	CloseDraining        = 4000
	CloseSlow            = 4008
	CloseTryLater        = 4013
	CloseRateLimited     = 4029
	CloseUnauthorized    = 4101
	CloseTokenExpired    = 4102
	CloseBlocked         = 4103
	CloseProtocolError   = 4109
	CloseTooManySessions = 4110
)

// Error is the error that a client gets when a command fails. It is a value of the protocol, written for the peer.
type Error struct {
	Code    Code   `json:"code"`
	Text    string `json:"text"`
	RetryMS int64  `json:"retry_ms,omitempty"`
	Reason  string `json:"reason,omitempty"` // of some errors: "queue_full", "away", "chats"
	Head    *Head  `json:"head,omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return "proto: " + string(e.Code) + ": " + e.Text }

// MinRetry is the shortest time after which a server asks a client to come again.
const MinRetry = 250 * time.Millisecond

// RetryMS returns a wait as clients are told it: whole milliseconds, rounded up, and never less than MinRetry.
func RetryMS(wait time.Duration) int64 {
	wait = max(wait, MinRetry)
	ms := wait.Milliseconds()
	if wait%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// Later makes an error of a command that may be tried again after wait. text is for people. Every error with a
// RetryMS is made here, so that none asks for less than MinRetry.
func Later(code Code, text string, wait time.Duration) *Error {
	return &Error{Code: code, Text: text, RetryMS: RetryMS(wait)}
}

// fail makes an error. text is for people.
func fail(code Code, text string) *Error { return &Error{Code: code, Text: text} }
