package store

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a site keeps of the visits of its customers, see SiteSettings.Visits. KeepBasic is the default: page and title
// without what stands behind the page's ?, the host of the referrer, browser, time zone, and the country of the address.
const (
	KeepNothing = "none"
	KeepBasic   = "basic"
	KeepFull    = "full" // also what stands behind the ?, all of the referrer, and the city of the address
)

// Limits of Facts.
const (
	MaxPageBytes  = 2000
	MaxTitleChars = 200
	maxZoneBytes  = 64
)

// Facts are what is known of a customer's present or last visit. Everything but Browser, Country and City is what the
// customer's own browser has said, and may be anything.
type Facts struct {
	Page     string `json:"page,omitempty"`     // address, http or https
	Title    string `json:"title,omitempty"`    // of the page
	Referrer string `json:"referrer,omitempty"` // address that led to the site
	Browser  string `json:"browser,omitempty"`  // kind and system
	Zone     string `json:"zone,omitempty"`     // time zone, such as Europe/Berlin
	Country  string `json:"country,omitempty"`  // of the address, two capital letters; "" = not known
	City     string `json:"city,omitempty"`     // of the address
	At       int64  `json:"at,omitempty"`       // Unix milliseconds
}

// VisitsKept returns what the site keeps of visits.
func (s *SiteSettings) VisitsKept() string {
	if s.Visits == "" {
		return KeepBasic
	}
	return s.Visits
}

// Kept returns the part of the facts that a site keeps, in a form that is safe to show. What is no address of the web is
// left out.
func (f Facts) Kept(level string) Facts {
	if level != KeepBasic && level != KeepFull {
		return Facts{}
	}
	page, referrer := webAddress(f.Page), webAddress(f.Referrer)
	if page != nil && level == KeepBasic {
		page.RawQuery, page.ForceQuery = "", false
	}
	if referrer != nil && page != nil && strings.EqualFold(referrer.Host, page.Host) {
		referrer = nil // from one page of the site to the next
	}
	if referrer != nil && level == KeepBasic {
		referrer = &url.URL{Scheme: referrer.Scheme, Host: referrer.Host}
	}
	f.Page, f.Referrer = addressText(page), addressText(referrer)
	if level == KeepBasic {
		f.City = "" // an address that is kept as little as that is cut off, too
	}
	f.City = oneLine(f.City, MaxTitleChars)
	f.Title, f.Browser = oneLine(f.Title, MaxTitleChars), oneLine(f.Browser, MaxTitleChars)
	if strings.Trim(f.Zone, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") != "" || len(f.Zone) > maxZoneBytes {
		f.Zone = ""
	}
	return f
}

// webAddress returns an address of the web without user and fragment, nil for everything else.
func webAddress(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil || len(s) > MaxPageBytes || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	return u
}

func addressText(u *url.URL) string {
	if u == nil {
		return ""
	}
	if s := u.String(); len(s) <= MaxPageBytes { // escaping may make it longer
		return s
	}
	return ""
}

// oneLine makes a line of at most limit characters.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit])
	}
	return s
}

// After returns the facts as they are after what was known before: the referrer stays while the customer goes from page
// to page.
func (f Facts) After(before Facts) Facts {
	if f.Referrer == "" && f != (Facts{}) {
		f.Referrer = before.Referrer
	}
	return f
}
