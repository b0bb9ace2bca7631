package desk

import (
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/geo/geotest"
)

// TestDeskPlaceFile: a file of places that is missing, torn or of another kind stops the start before anything is made.
// SIGHUP takes a new file, and keeps the one in use when the new one is torn, also beside the certificate.
func TestDeskPlaceFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, data := filepath.Join(dir, "places.mmdb"), filepath.Join(dir, "data")
	write := func(kind string, cut int) {
		t.Helper()
		content, err := geotest.Database(kind, map[string]geotest.Place{"81.2.69.0/24": {Country: "GB", City: "London"}})
		if err == nil {
			err = os.WriteFile(path, content[:len(content)-cut], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	start := []string{"desk", "--addr", "127.0.0.1:0", "--data", data, "--place-file", path}
	cmdtest.ExpectFailure(t, start, "--place-file: geo: cannot read "+path, "no such file")
	write("GeoLite2-City", 40)
	cmdtest.ExpectFailure(t, start, path+" is no whole database", "get it again")
	write("GeoLite2-ASN", 0)
	cmdtest.ExpectFailure(t, start, path+` is a database of the kind "GeoLite2-ASN"`, "such as GeoLite2-City")
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("a start that failed left a data directory behind (%v)", err)
	}
	write("GeoLite2-City", 0)
	p := cmdtest.StartServer(t, start...)
	p.WaitOutput(p.Errs, regexp.MustCompile(`places of customers by GeoLite2-City, built \d{4}-\d\d-\d\d\n`))
	write("GeoLite2-City", 40)
	p.Signal(syscall.SIGHUP)
	p.WaitOutput(p.Errs, regexp.MustCompile(`the places in use stay: .*places\.mmdb is no whole database`))
	write("DBIP-City-Lite", 0)
	p.Signal(syscall.SIGHUP)
	p.WaitOutput(p.Errs, regexp.MustCompile(`places of customers by DBIP-City-Lite, built \S+, which is new\n`))
	p.Signal(syscall.SIGHUP)
	p.WaitOutput(p.Errs, regexp.MustCompile(`places of customers by DBIP-City-Lite, built \S+, as before\n`))
	p.Stop()
}
