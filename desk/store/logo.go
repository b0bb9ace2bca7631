package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
)

// Limits of a site's logo.
const (
	MaxLogoBytes = 128 << 10
	MaxLogoSide  = 2048 // pixels
)

// Reasons why a picture is no logo.
const (
	ReasonBytes   = "bytes"   // Value bytes, more than Limit
	ReasonPixels  = "pixels"  // one side of Value is longer than Limit
	ReasonPicture = "picture" // Value is not one of LogoTypes
	ReasonSVG     = "svg"     // a picture that can contain scripts
	ReasonMoves   = "moves"   // more than one picture
	ReasonDamaged = "damaged" // its header makes no sense
)

// LogoTypes returns the media types that a logo may have.
func LogoTypes() []string { return []string{"image/png", "image/jpeg", "image/webp", "image/gif"} }

// Logo is the picture that stands for a site. The zero value is none.
type Logo struct {
	Hash    string // of Content, see NewLogo; it names the logo in addresses
	Type    string // one of LogoTypes
	Width   int    // in pixels, as browsers show it
	Height  int
	Content []byte // of a new logo, and of one that Reader.Logo has returned; nil in a Site that was read
}

// NewLogo returns a logo with its hash. The caller has found out type and size from the content.
func NewLogo(mediaType string, width, height int, content []byte) Logo {
	sum := sha256.Sum256(content)
	return Logo{Hash: hex.EncodeToString(sum[:16]), Type: mediaType, Width: width, Height: height, Content: content}
}

// Check returns what is wrong with a new logo as an Invalid. A logo without Content is not looked at.
func (l *Logo) Check() error {
	var i Invalid
	l.check(&i)
	return i.err()
}

func (l *Logo) check(i *Invalid) {
	refuse := func(reason string, limit int64, value string) {
		*i = append(*i, Problem{Field: "logo", Reason: reason, Limit: limit, Value: value})
	}
	switch {
	case l.Content == nil:
	case l.Type == "image/svg+xml":
		refuse(ReasonSVG, 0, "")
	case !slices.Contains(LogoTypes(), l.Type):
		refuse(ReasonPicture, 0, l.Type)
	case len(l.Content) > MaxLogoBytes:
		refuse(ReasonBytes, MaxLogoBytes, strconv.Itoa(len(l.Content)))
	case l.Width < 1 || l.Height < 1:
		refuse(ReasonDamaged, 0, "")
	case l.Width > MaxLogoSide || l.Height > MaxLogoSide:
		refuse(ReasonPixels, MaxLogoSide, fmt.Sprintf("%d × %d", l.Width, l.Height))
	}
}
