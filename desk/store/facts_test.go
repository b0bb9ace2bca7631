package store

import (
	"strings"
	"testing"
)

// What a browser says is cut down to what the site keeps, and to addresses of the web on one line.
func TestFactsKept(t *testing.T) {
	said := Facts{
		Page: "https://ann:secret@shop.example/cart?order=7#token=x", Title: " Your\n cart\x00 ", Referrer: "https://search.example/find?q=shoes#top",
		Browser: "Firefox, Windows", Zone: "Europe/Berlin", Country: "DE", City: "Berlin\n", At: 5,
	}
	for level, want := range map[string]Facts{
		KeepBasic: {Page: "https://shop.example/cart", Title: "Your cart", Referrer: "https://search.example", Browser: "Firefox, Windows", Zone: "Europe/Berlin", Country: "DE", At: 5},
		KeepFull: {Page: "https://shop.example/cart?order=7", Title: "Your cart", Referrer: "https://search.example/find?q=shoes", Browser: "Firefox, Windows",
			Zone: "Europe/Berlin", Country: "DE", City: "Berlin", At: 5},
		KeepNothing: {}, "": {}, "everything": {},
	} {
		if got := said.Kept(level); got != want {
			t.Errorf("%q: %+v, want %+v", level, got, want)
		}
	}
	for name, f := range map[string]Facts{
		"a script": {Page: "javascript:alert(1)", Referrer: "data:text/html,x"}, "no host": {Page: "https:///x", Referrer: "/cart"},
		"a file": {Page: "file:///etc/passwd", Referrer: "ftp://x/y"}, "too long": {Page: "https://x/" + strings.Repeat("a", MaxPageBytes)},
		"longer when it is escaped": {Page: "https://x/" + strings.Repeat("é", 900)}, "a zone with blanks": {Zone: "Europe Berlin"},
		"a long zone": {Zone: strings.Repeat("A", 65)}, "markup": {Zone: "<b>"},
	} {
		if got := f.Kept(KeepFull); got != (Facts{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := (Facts{Title: strings.Repeat("é", MaxTitleChars+1)}).Kept(KeepFull).Title; got != strings.Repeat("é", MaxTitleChars) {
		t.Errorf("a long title: %q", got)
	}
	if got := (Facts{Page: "https://shop.example/b", Referrer: "https://SHOP.example/a"}).Kept(KeepFull); got.Referrer != "" {
		t.Errorf("from the site itself: %+v", got)
	}
	before := Facts{Page: "https://shop.example/a", Referrer: "https://search.example", At: 1}
	if got := (Facts{Page: "https://shop.example/b", At: 2}).After(before); got.Referrer != before.Referrer || got.Page != "https://shop.example/b" {
		t.Errorf("the next page: %+v", got)
	}
	if got := (Facts{Referrer: "https://news.example", At: 2}).After(before); got.Referrer != "https://news.example" {
		t.Errorf("another visit: %+v", got)
	}
}
