package rpc

import (
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	for s, want := range map[string]Key{
		"g/i:1":          {"g", "i", "1"},
		"/i:":            {"", "i", ""},
		"i":              {Interface: "i"},
		"i:1.0":          {Interface: "i", Version: "1.0"},
		"g/i":            {Group: "g", Interface: "i"},
		"/demo.Greeter:": {Interface: "demo.Greeter"},
	} {
		k, err := ParseKey(s)
		if err != nil || k != want {
			t.Errorf("%q is %+v, %v; want %+v", s, k, err, want)
		}
		if again, err := ParseKey(k.String()); err != nil || again != k {
			t.Errorf("%q becomes %q and %+v, %v", s, k, again, err)
		}
	}
	for _, s := range []string{"", "/:", "g/:1", ":1", "a/b/c", "a:b:c", "i:1/2", "i i", "\ti", "i\x00", "\xff"} {
		if k, err := ParseKey(s); err == nil || !strings.HasPrefix(err.Error(), "rpc: ") {
			t.Errorf("%q is %+v, %v", s, k, err)
		}
	}
	for s, want := range map[string]bool{"/i:": true, "g/i:1": true, "i": false, "g/i": false, "i:1": false, "/:": false, "": false} {
		if got := wellFormedKey([]byte(s)); got != want {
			t.Errorf("well-formed %q: %v", s, got)
		}
	}
}
