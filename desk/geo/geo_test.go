package geo

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/desk/geo/geotest"
)

func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func database(t *testing.T, kind string, places map[string]geotest.Place) []byte {
	t.Helper()
	content, err := geotest.Database(kind, places)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func known() map[string]geotest.Place {
	return map[string]geotest.Place{
		"81.2.69.0/24": {Country: "GB", City: "London"}, "175.16.199.0/24": {Country: "CN"}, "2001:218::/32": {Country: "JP", City: "Tokyo"},
		"203.0.112.0/24": {City: "Nowhere"}, "203.0.111.0/24": {Country: "<b>"}, "10.0.0.0/8": {Country: "ZZ", City: "Intranet"}, "127.0.0.0/8": {Country: "ZZ"},
	}
}

// A public address of IPv4 has the place that the file says. Of every other address nothing is known.
func TestPlaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "city.mmdb")
	write(t, path, database(t, "GeoLite2-City", known()))
	f := open(t, path)
	for address, want := range map[string]Place{
		"81.2.69.142": {"GB", "London"}, "::ffff:81.2.69.142": {"GB", "London"}, "175.16.199.1": {Country: "CN"},
		"81.2.70.1": {}, "2001:218::1": {}, "10.1.2.3": {}, "127.0.0.1": {}, "::1": {}, "fe80::1%eth0": {}, "0.0.0.0": {}, "255.255.255.255": {}, "224.0.0.1": {}, "169.254.1.1": {},
		"203.0.112.1": {}, "203.0.111.1": {},
	} {
		if got := f.Of(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %+v, want %+v", address, got, want)
		}
	}
	if got := f.Of(netip.Addr{}); got != (Place{}) {
		t.Errorf("no address: %+v", got)
	}
	if s := f.String(); !strings.HasPrefix(s, "GeoLite2-City, built 20") {
		t.Errorf("it calls itself %q", s)
	}
}

// A file that is missing, torn or of another kind is refused, with its name and what to do.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	whole := database(t, "GeoLite2-City", known())
	zeroed := append([]byte(nil), whole...)
	clear(zeroed[:len(zeroed)/4])
	holes := append([]byte(nil), whole...)
	for i := len(holes) / 2; i < len(holes)/2+64; i++ {
		holes[i] = 0xff
	}
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"cut off":        {whole[:len(whole)-40], "no whole database"},
		"half":           {whole[:len(whole)/2], "no whole database"},
		"zeros in front": {zeroed, "no whole database"},
		"holes":          {holes, "no whole database"},
		"text":           {[]byte("<html>Please log in</html>"), "no whole database"},
		"empty":          {nil, "no whole database"},
		"networks":       {database(t, "GeoLite2-ASN", known()), `kind "GeoLite2-ASN": give one of countries or cities`},
	} {
		path := filepath.Join(dir, name)
		write(t, path, c.content)
		if f, err := Open(path); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v %v", name, f, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "missing")); err == nil || !strings.Contains(err.Error(), "cannot read "+dir) {
		t.Errorf("missing: %v", err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("a folder: %v", err)
	}
	path := filepath.Join(dir, "large")
	write(t, path, whole)
	if _, err := read(path, 100); err == nil || !strings.Contains(err.Error(), "the limit is 100") {
		t.Errorf("too large: %v", err)
	}
}

// A replaced file is taken when it is whole, also while addresses are looked up. Otherwise the one in use stays.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "city.mmdb")
	write(t, path, database(t, "GeoLite2-City", known()))
	f := open(t, path)
	london := netip.MustParseAddr("81.2.69.142")
	expect := func(city string, changed, fails bool) {
		t.Helper()
		if is, err := f.Reload(); is != changed || (err != nil) != fails {
			t.Errorf("reloaded: changed %v, %v", is, err)
		}
		if p := f.Of(london); p.City != city {
			t.Errorf("then it is %+v", p)
		}
	}
	expect("London", false, false)
	write(t, path, []byte("torn"))
	expect("London", false, true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("London", false, true)
	write(t, path, database(t, "DBIP-City-Lite", map[string]geotest.Place{"81.2.69.0/24": {Country: "GB", City: "Leeds"}}))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				if p := f.Of(london); p.City != "London" && p.City != "Leeds" {
					t.Errorf("meanwhile: %+v", p)
					return
				}
			}
		})
	}
	expect("Leeds", true, false)
	all.Wait()
}
