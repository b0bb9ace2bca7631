package grpcwire

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"
)

// EscapeMessage makes the text of a status fit for a header field: bytes outside printable ASCII, and "%", are
// percent-encoded; what is no UTF-8 is replaced. So is a space at an end, which no field may have (RFC 9113 section 8.2.1).
func EscapeMessage(s string) string {
	plain := 0
	for plain < len(s) && printable(s[plain]) {
		plain++
	}
	if plain == len(s) && (s == "" || s[0] != ' ' && s[len(s)-1] != ' ') {
		return s
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; printable(c) && (c != ' ' || i > 0 && i < len(s)-1) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func printable(c byte) bool { return ' ' <= c && c <= '~' && c != '%' }

// UnescapeMessage is the opposite of EscapeMessage. What is no valid encoding stays as it is.
func UnescapeMessage(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi >= 0 && lo >= 0 {
				b = append(b, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// BinarySuffix ends the names of fields whose values are any bytes, in base64 on the wire.
const BinarySuffix = "-bin"

// EncodeBinary returns the value of a -bin field.
func EncodeBinary(b string) string { return base64.RawStdEncoding.EncodeToString([]byte(b)) }

// DecodeBinary is the opposite of EncodeBinary, with padding or without.
func DecodeBinary(s string) (string, error) {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil {
		return "", fmt.Errorf("a -bin field that is no base64: %w", err)
	}
	return string(b), nil
}

// Reserved reports whether a header field, in lower case, belongs to the protocol and is no metadata.
func Reserved(name string) bool {
	switch name {
	case "content-type", "te", "host", "user-agent", "accept-encoding", "content-length", "connection", "trailer", "date":
		return true
	}
	return strings.HasPrefix(name, "grpc-") || strings.HasPrefix(name, ":")
}
