package desk

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/geo"
	"github.com/go-eddy/eddy/desk/geo/geotest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/internal/testkit"
)

// placeFile is a file that says where one network is.
func placeFile(t *testing.T) *geo.File {
	t.Helper()
	content, err := geotest.Database("GeoLite2-City", map[string]geotest.Place{"81.2.69.0/24": {Country: "GB", City: "London"}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "city.mmdb")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := geo.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The card has the country of a customer's address, which a trusted proxy may name. An address that nobody believed, one
// that the file does not know, and a server without a file have none. The customer is sent nothing of it.
func TestPlacesOfVisitors(t *testing.T) {
	for name, c := range map[string]struct {
		file    bool
		trusts  []string
		from    string
		country string
	}{
		"named by a proxy":          {true, []string{"127.0.0.0/8"}, "81.2.69.142", "GB"},
		"the last one counts":       {true, []string{"127.0.0.0/8"}, "81.2.69.142, 198.51.100.1", ""},
		"named by a stranger":       {true, []string{"10.0.0.0/8"}, "81.2.69.142", ""},
		"an unknown address":        {true, []string{"127.0.0.0/8"}, "198.51.100.1", ""},
		"a private address":         {true, []string{"127.0.0.0/8"}, "192.168.1.1", ""},
		"no address":                {true, []string{"127.0.0.0/8"}, "nonsense", ""},
		"a server without the file": {false, []string{"127.0.0.0/8"}, "81.2.69.142", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t)
			o.TrustedProxies = prefixes(t, c.trusts...)
			if c.file {
				o.Places = placeFile(t)
			}
			s := serve(t, o)
			ann := s.customerFrom(c.from)
			conv, err := ann.Open(s.ctx, "human")
			s.ok(err)
			s.ok(ann.Tell(s.ctx, "visit", "", proto.Visit{Page: "https://shop.example/cart"}))
			agent := s.agent()
			s.ok(agent.Take(s.ctx, conv))
			var got proto.ContactGot
			testkit.Eventually(t, "the visit on the card", func() bool {
				f, err := agent.Do(s.ctx, "contact.get", "", proto.ContactGet{Contact: ann.Me().ID})
				if err == nil {
					f.Decode(&got)
				}
				return err == nil && got.Visit.Page != ""
			})
			if got.Visit.Country != c.country || got.Visit.City != "" {
				t.Errorf("the card has %+v", got.Visit)
			}
		})
	}
}

// customerFrom is a customer behind a proxy that names its address.
func (s *served) customerFrom(address string) *desktest.Client {
	s.t.Helper()
	status, resp := call(s.desk, "POST", "/api/v1/widget/session", `{"site":"demo"}`)
	if status != http.StatusOK {
		s.t.Fatal(status)
	}
	me := desktest.Into[visitorInfo](s.t, resp)
	c := desktest.New(func(ctx context.Context) (desktest.Transport, proto.Hello, error) {
		conn, err := desktest.Dial(ctx, s.base.Load().(string), http.Header{"X-Forwarded-For": {address}})
		return conn, proto.Hello{Token: me.Token, Locale: "en"}, err
	})
	s.t.Cleanup(c.Close)
	return c
}
