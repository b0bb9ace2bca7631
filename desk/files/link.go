package files

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// LinkLife is how long an address works at least. Addresses end on multiples of linkGrid, so that the same file keeps
// its address for a while and the browser's cache works.
const (
	LinkLife = 10 * time.Minute
	linkGrid = 5 * time.Minute
)

// Errors of Links.Check.
var (
	ErrLink        = errors.New("files: the address was not made by this server")
	ErrLinkExpired = errors.New("files: the address is too old")
)

// Links makes and checks addresses of files. A client that has an address may fetch the file until the address expires.
// Any goroutine may use it.
type Links struct {
	key []byte
	now func() time.Time
}

// NewLinks returns the Links of a secret key.
func NewLinks(key []byte, now func() time.Time) *Links { return &Links{key: key, now: now} }

// Link implements hub.Links.
func (l *Links) Link(id string, side store.Side) (path string, life time.Duration) {
	now := l.now()
	end := now.Add(LinkLife + linkGrid).Truncate(linkGrid)
	e := strconv.FormatInt(end.Unix(), 10)
	return "/files/" + id + "?e=" + e + "&s=" + l.sign(id, e, sideMark(side)), LinkLife
}

// Check returns the side that an address was made for. e and s are its parameters.
func (l *Links) Check(id, e, s string) (store.Side, error) {
	end, err := strconv.ParseInt(e, 10, 64)
	if err != nil {
		return 0, ErrLink
	}
	side := store.CustomerSide
	if s != "" && s[:1] == sideMark(store.StaffSide) {
		side = store.StaffSide
	}
	switch {
	case !hmac.Equal([]byte(l.sign(id, e, sideMark(side))), []byte(s)):
		return 0, ErrLink
	case !l.now().Before(time.Unix(end, 0)):
		return 0, ErrLinkExpired
	}
	return side, nil
}

func sideMark(s store.Side) string {
	if s == store.StaffSide {
		return "a"
	}
	return "c"
}

// sign authenticates everything that an address says. The id comes last and e is a number, so the parts cannot run into
// each other.
func (l *Links) sign(id, e, side string) string {
	m := hmac.New(sha256.New, l.key)
	_, _ = m.Write([]byte("file " + side + " " + e + " " + id)) // never fails
	return side + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
