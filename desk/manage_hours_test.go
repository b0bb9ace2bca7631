package desk

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// Business hours are entered in the forms of sites and groups. What is wrong is told at its field, with the limit and what was entered.
func TestManageHours(t *testing.T) {
	p := managed(t)
	open := url.Values{
		"hours_zone": {"Europe/Berlin"}, "hours_0": {"09:00-12:00, 13:00-17:30"}, "hours_5": {"10-24:00"}, "hours_holidays": {"2026-12-25\r\n\r\n 2026-12-24 09:00-12:00 "},
	}
	with := func(more url.Values) url.Values {
		all := make(url.Values)
		for _, from := range []url.Values{open, more} {
			for field, value := range from {
				all[field] = value
			}
		}
		return all
	}
	site, _, _ := strings.Cut(p.post("/admin/sites", with(url.Values{"key": {"shop"}, "name": {"Shop"}, "away_after": {"7"}})), "?")
	group, _, _ := strings.Cut(p.post("/admin/groups", with(url.Values{"name": {"Sales"}})), "?")
	s, err := p.d.store.Cold().SiteByKey(t.Context(), "shop")
	if h := s.Settings.Hours; err != nil || h.Zone != "Europe/Berlin" || h.Week != [7]string{0: "09:00-12:00, 13:00-17:30", 5: "10-24:00"} ||
		!slices.Equal(h.Holidays, []string{"2026-12-25", "2026-12-24 09:00-12:00"}) || s.Settings.AwayAfter != 7*60_000 {
		t.Errorf("stored: %+v, %d, %v", h, s.Settings.AwayAfter, err)
	}
	groups, err := p.d.store.Cold().Groups(t.Context())
	if i := slices.IndexFunc(groups, func(g store.Group) bool { return g.Name == "Sales" }); err != nil || i < 0 || groups[i].Settings.Hours.Week[5] != "10-24:00" {
		t.Errorf("stored: %+v, %v", groups, err)
	}
	for _, at := range []string{site, group} {
		if body := p.get(at, http.StatusOK); !strings.Contains(body, `value="09:00-12:00, 13:00-17:30"`) || !strings.Contains(body, "2026-12-24 09:00-12:00</textarea>") {
			t.Errorf("%s does not show what is stored:\n%s", at, body)
		}
		for field, c := range map[string]struct{ entered, want string }{
			"hours_zone":     {"Mars/Base", "Mars/Base is not a time zone. Write one such as Europe/Berlin or Asia/Shanghai."},
			"hours_1":        {"9 to 5", "9 to 5 is not a time from and to. Write it as 09:00-17:30."},
			"hours_2":        {"22:00-06:00", "22:00-06:00 does not end after it begins. Hours over midnight are two: 22:00-24:00, and 00:00-06:00 on the next day."},
			"hours_3":        {"9-12, 11-13", "These overlap: 09:00-12:00, 11:00-13:00."},
			"hours_4":        {"0-1,1-2,2-3,3-4,4-5,5-6,6-7,7-8,8-9", "Too many: at most 8, here are 9."},
			"hours_6":        {strings.Repeat(" ", 100) + "9" + strings.Repeat(" ", 200) + "-17", "Too long: at most 200 characters, here are 204."},
			"hours_holidays": {"2026-13-01", "2026-13-01 does not begin with a date such as 2026-12-24."},
		} {
			errs, body := p.refused(at, with(url.Values{"name": {"Shop"}, field: {c.entered}}), http.StatusUnprocessableEntity)
			if errs[field] != c.want || len(errs) != 1 {
				t.Errorf("%s, %s %q: %v, want %q", at, field, c.entered, errs, c.want)
			}
			if !strings.Contains(body, `value="Europe/Berlin"`) && field != "hours_zone" {
				t.Errorf("%s: what was entered is lost", at)
			}
		}
	}
	errs, _ := p.refused(site, url.Values{"name": {"Shop"}, "hours_0": {"9-17"}}, http.StatusUnprocessableEntity)
	if errs["hours_zone"] != "Fill this in." {
		t.Errorf("hours without a zone: %v", errs)
	}
	errs, _ = p.refused(site, with(url.Values{"name": {"Shop"}, "away_after": {"43201"}}), http.StatusUnprocessableEntity)
	if errs["away_after"] != "Out of range: 0 up to 43200." {
		t.Errorf("a time that is too long: %v", errs)
	}
	if body := p.get("/admin/sites/new", http.StatusOK); !strings.Contains(body, "Empty: 5. At most 43200.") {
		t.Error("the usual time until messages are left is not told")
	}
	p.post(site, url.Values{"name": {"Shop"}}) // always open again
	if s, err := p.d.store.Cold().SiteByKey(t.Context(), "shop"); err != nil || s.Settings.Hours.Set() {
		t.Errorf("taken away: %+v, %v", s.Settings.Hours, err)
	}
}
