package rpc

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key names a service. Two services whose keys differ in any part are two services.
type Key struct {
	Group     string // may be empty
	Interface string
	Version   string // may be empty
}

// String returns the key as it travels, group/interface:version.
func (k Key) String() string { return k.Group + "/" + k.Interface + ":" + k.Version }

// Validate returns what is wrong with a key, or nil. The interface must not be empty. No part may hold a slash, a colon,
// a space, a control character or bytes that are no UTF-8.
func (k Key) Validate() error {
	if k.Interface == "" {
		return fmt.Errorf("rpc: key %q: the interface is empty", k.String())
	}
	for _, part := range []struct{ name, text string }{{"group", k.Group}, {"interface", k.Interface}, {"version", k.Version}} {
		if !utf8.ValidString(part.text) || strings.ContainsFunc(part.text, notInKey) {
			return fmt.Errorf("rpc: key %q: the %s %q has a character that keys do not have", k.String(), part.name, part.text)
		}
	}
	return nil
}

func notInKey(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) || unicode.IsControl(r) }

// ParseKey is the opposite of Key.String. For the convenience of people group/ and :version may be left out.
func ParseKey(s string) (Key, error) {
	var k Key
	rest := s
	if group, after, ok := strings.Cut(rest, "/"); ok {
		k.Group, rest = group, after
	}
	k.Interface, k.Version, _ = strings.Cut(rest, ":")
	if err := k.Validate(); err != nil {
		return Key{}, fmt.Errorf("%w; want group/interface:version, not %q", err, s)
	}
	return k, nil
}

// wellFormedKey reports whether b is a key as it travels, with both separators.
func wellFormedKey(b []byte) bool {
	if bytes.IndexByte(b, '/') < 0 || bytes.IndexByte(b, ':') < 0 {
		return false
	}
	_, err := ParseKey(string(b))
	return err == nil
}
