package discovery

import (
	"strings"
	"testing"
)

// TestInstanceCheck: an instance that nobody could connect to is refused, and the error names what is wrong.
func TestInstanceCheck(t *testing.T) {
	for _, good := range []Instance{{Addr: "a:1"}, {Addr: "[::1]:65535", Weight: MaxWeight}, {Addr: ":80"}} {
		if err := good.Check(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for want, bad := range map[string]Instance{
		"missing port":  {Addr: "a"},
		"from 1":        {Addr: "a:0"},
		"65535":         {Addr: "a:70000"},
		"no host":       {Addr: "a b:1"},
		"weight of a:1": {Addr: "a:1", Weight: MaxWeight + 1},
		"is -1":         {Addr: "a:1", Weight: -1},
	} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", bad, err, want)
		}
	}
}

// TestServiceString: a service is written as its key is.
func TestServiceString(t *testing.T) {
	if got := (Service{Interface: "i", Group: "g", Version: "1"}).String(); got != "g/i:1" {
		t.Error(got)
	}
	if got := (Service{Interface: "i"}).String(); got != "i" {
		t.Error(got)
	}
}
