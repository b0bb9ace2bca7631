package files

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

func TestLinks(t *testing.T) {
	now := time.Unix(1_700_000_123, 0)
	l := NewLinks([]byte("key"), func() time.Time { return now })
	other := NewLinks([]byte("another key"), func() time.Time { return now })
	for _, side := range []store.Side{store.CustomerSide, store.StaffSide} {
		now = time.Unix(1_700_000_123, 0)
		path, life := l.Link("one", side)
		u, err := url.Parse(path)
		if err != nil || u.Path != "/files/one" {
			t.Fatalf("%q %v", path, err)
		}
		e, s := u.Query().Get("e"), u.Query().Get("s")
		if got, err := l.Check("one", e, s); err != nil || got != side {
			t.Fatalf("%q: side %d, %v", path, got, err)
		}
		swapped := map[string]string{"a": "c", "c": "a"}[s[:1]] + s[1:]
		for name, c := range map[string][3]string{
			"another file":   {"two", e, s},
			"a later end":    {"one", "9" + e, s},
			"end with sign":  {"one", "+" + e, s},
			"no end":         {"one", "", s},
			"no signature":   {"one", e, ""},
			"cut signature":  {"one", e, s[:len(s)-1]},
			"other side":     {"one", e, swapped},
			"altered":        {"one", e, s[:5] + string('A'+(s[5]+1)%2) + s[6:]},
			"another server": {"one", e, strings.TrimPrefix(sign(other, side), "")},
			"moved border":   {"one " + e, e, s},
		} {
			if _, err := l.Check(c[0], c[1], c[2]); !errors.Is(err, ErrLink) {
				t.Errorf("%s: %v", name, err)
			}
		}
		now = now.Add(life - time.Second)
		if _, err := l.Check("one", e, s); err != nil {
			t.Errorf("at the end of its life: %v", err)
		}
		end, err := strconv.ParseInt(e, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		now = time.Unix(end, 0)
		if _, err := l.Check("one", e, s); !errors.Is(err, ErrLinkExpired) {
			t.Errorf("at its end: %v", err)
		}
		now = now.Add(linkGrid + time.Second)
		if _, err := l.Check("one", e, s); !errors.Is(err, ErrLinkExpired) {
			t.Errorf("too old: %v", err)
		}
	}
	now = time.Unix(1_700_000_100, 0)
	first, _ := l.Link("one", store.CustomerSide)
	now = now.Add(linkGrid - time.Second)
	if again, _ := l.Link("one", store.CustomerSide); again != first {
		t.Errorf("%q, a little later %q: the browser's cache is of no use", first, again)
	}
}

func sign(l *Links, side store.Side) string {
	path, _ := l.Link("one", side)
	_, s, _ := strings.Cut(path, "&s=")
	return s
}
