package proto

import "fmt"

// maxTitleBytes bounds the title of a page as it comes. Of what comes, less may be kept.
const maxTitleBytes = 2000

// Visit tells where the customer is. What is kept of it depends on the site.
type Visit struct {
	Page     string `json:"page"` // address
	Title    string `json:"title"`
	Referrer string `json:"referrer"` // address that led here
	Zone     string `json:"zone"`     // time zone, such as Europe/Berlin
}

// Facts are what staff see of a customer's visit. Only At, Browser, Country and City are not the word of the customer's
// own browser.
type Facts struct {
	Page     string `json:"page,omitempty"`     // address, http or https
	Title    string `json:"title,omitempty"`    // of the page
	Referrer string `json:"referrer,omitempty"` // address that led to the site
	Browser  string `json:"browser,omitempty"`  // kind and system
	Zone     string `json:"zone,omitempty"`     // time zone
	Country  string `json:"country,omitempty"`  // two capital letters of ISO 3166
	City     string `json:"city,omitempty"`     // in English
	At       int64  `json:"at,omitempty"`       // Unix milliseconds
}

// VisitorNow is the payload of ev.visitor.
type VisitorNow struct {
	Contact string `json:"contact"`
	Visit   Facts  `json:"visit"`
}

// Merged is the payload of ev.merged.
type Merged struct {
	Contact string `json:"contact"`
	Into    string `json:"into"`
}

func checkVisit(p any) *Error {
	v := p.(*Visit)
	for _, f := range []struct {
		name, text string
		limit      int
	}{{"page", v.Page, maxPageBytes}, {"referrer", v.Referrer, maxPageBytes}, {"title", v.Title, maxTitleBytes}, {"zone", v.Zone, maxIDBytes}} {
		if len(f.text) > f.limit {
			return fail(CodeBadRequest, fmt.Sprintf("%s has %d bytes, the limit is %d", f.name, len(f.text), f.limit))
		}
	}
	return nil
}
