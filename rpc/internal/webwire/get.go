package webwire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Get is a call by GET: Connect puts the message into the query.
type Get struct {
	ContentType string // as a request by POST would have it
	Compression string // as Content-Encoding would; "" = none
	Message     []byte
}

// ParseGet reads a query.
func ParseGet(q url.Values) (g Get, err error) {
	g.ContentType, g.Compression = "application/"+q.Get("encoding"), q.Get("compression")
	if v := q.Get("connect"); v != "" && v != "v1" {
		return g, fmt.Errorf("connect=%q in the query: want v1", v)
	}
	if !q.Has("message") {
		return g, errors.New("no message in the query")
	}
	switch v := q.Get("base64"); v {
	case "", "0":
		g.Message = []byte(q.Get("message"))
	case "1":
		if g.Message, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(q.Get("message"), "=")); err != nil {
			return g, fmt.Errorf("message in the query: %w", err)
		}
	default:
		return g, fmt.Errorf("base64=%q in the query: want 0 or 1", v)
	}
	return g, nil
}
