// Package webwire has the words of Connect and of gRPC-Web, the protocols that pages in browsers speak: their content types,
// timeouts, ends of streams and errors. It knows nothing of connections and calls.
package webwire

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Form is how a protocol puts messages into a request and its response.
type Form uint8

// The forms.
const (
	Unary    Form = iota // Connect: the body is the message
	Stream               // Connect: each message has a prefix, and the last one is JSON with the outcome
	GRPC                 // gRPC-Web: the body is that of gRPC, with the trailer as its last message
	GRPCText             // gRPC-Web in base64
)

// contentTypes has what each content type stands for. The codec is named as behind "application/grpc".
var contentTypes = map[string]struct {
	form  Form
	codec string
}{
	"application/proto":               {Unary, "+proto"},
	"application/json":                {Unary, "+json"},
	"application/connect+proto":       {Stream, "+proto"},
	"application/connect+json":        {Stream, "+json"},
	"application/grpc-web":            {GRPC, ""},
	"application/grpc-web+proto":      {GRPC, "+proto"},
	"application/grpc-web+json":       {GRPC, "+json"},
	"application/grpc-web-text":       {GRPCText, ""},
	"application/grpc-web-text+proto": {GRPCText, "+proto"},
}

// AcceptPost lists the content types for a client that has sent another one (RFC 9110 section 12.5.1).
const AcceptPost = "application/proto, application/json, application/connect+proto, application/connect+json, " +
	"application/grpc-web, application/grpc-web+proto, application/grpc-web+json, application/grpc-web-text, application/grpc-web-text+proto"

// ParseContentType returns the form of a request and the content type that gRPC has for its codec.
func ParseContentType(value string) (form Form, grpc string, ok bool) {
	base, params, err := mime.ParseMediaType(value)
	if err != nil {
		return 0, "", false
	}
	if set := params["charset"]; set != "" && !strings.EqualFold(set, "utf-8") {
		return 0, "", false
	}
	t, ok := contentTypes[base]
	return t.form, "application/grpc" + t.codec, ok
}

// IsConnect reports whether the form is one of Connect.
func (f Form) IsConnect() bool { return f <= Stream }

// maxTimeoutDigits bounds the number of a timeout.
const maxTimeoutDigits = 10

// ParseTimeout reads a Connect-Timeout-Ms.
func ParseTimeout(s string) (time.Duration, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || len(s) > maxTimeoutDigits || s[0] == '+' {
		return 0, fmt.Errorf("Connect-Timeout-Ms %q: want up to %d digits", s, maxTimeoutDigits)
	}
	return time.Duration(n) * time.Millisecond, nil
}

// codes has the name in Connect and the status of HTTP of each code of gRPC.
var codes = [...]struct {
	name   string
	status int
}{
	{"", http.StatusOK},
	{"canceled", 499},
	{"unknown", http.StatusInternalServerError},
	{"invalid_argument", http.StatusBadRequest},
	{"deadline_exceeded", http.StatusGatewayTimeout},
	{"not_found", http.StatusNotFound},
	{"already_exists", http.StatusConflict},
	{"permission_denied", http.StatusForbidden},
	{"resource_exhausted", http.StatusTooManyRequests},
	{"failed_precondition", http.StatusBadRequest},
	{"aborted", http.StatusConflict},
	{"out_of_range", http.StatusBadRequest},
	{"unimplemented", http.StatusNotImplemented},
	{"internal", http.StatusInternalServerError},
	{"unavailable", http.StatusServiceUnavailable},
	{"data_loss", http.StatusInternalServerError},
	{"unauthenticated", http.StatusUnauthorized},
}

// unknown is the code for numbers that have no name.
const unknown = 2

// HTTPStatus returns the status of HTTP for a code of gRPC.
func HTTPStatus(code uint32) int {
	if code >= uint32(len(codes)) {
		code = unknown
	}
	return codes[code].status
}

// codeName returns the name of a code in Connect.
func codeName(code uint32) string {
	if code >= uint32(len(codes)) {
		code = unknown
	}
	return codes[code].name
}
