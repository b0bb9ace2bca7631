package store

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Limits of proactive messages. Lengths are in characters.
const (
	MaxProactives    = 5
	MaxProactive     = 300
	MaxProactivePage = 200
	MaxProactiveWait = 3600 // seconds
)

// SiteLook says how the chat button stands on the pages of a site, and when it speaks first.
type SiteLook struct {
	Side      string      `json:"side,omitempty"` // left or right; "" = where the page's writing ends
	Proactive []Proactive `json:"proactive,omitempty"`
}

// Proactive is a short text beside the chat button. It is shown to a visitor once, on a page that has been looked at
// for so long and scrolled so far.
type Proactive struct {
	Text   string `json:"text"`
	Page   string `json:"page,omitempty"`   // part of the page's address; "" = every page
	After  int    `json:"after,omitempty"`  // seconds
	Scroll int    `json:"scroll,omitempty"` // percent of the page's height
}

// ID returns a name that changes with the text, so that a new text is shown to those who have seen the old one.
func (v Proactive) ID() string {
	sum := sha256.Sum256([]byte(v.Text))
	return hex.EncodeToString(sum[:6])
}

func (l *SiteLook) check(i *Invalid) {
	i.need(slices.Contains([]string{"", "left", "right"}, l.Side), "side", ReasonUnknown)
	i.count("proactive", len(l.Proactive), MaxProactives)
	for _, v := range l.Proactive {
		i.text("proactive", v.Text, MaxProactive, true, true)
		i.text("proactive", v.Page, MaxProactivePage, false, true)
		i.between("proactive", int64(v.After), MaxProactiveWait)
		i.between("proactive", int64(v.Scroll), 100)
	}
}
