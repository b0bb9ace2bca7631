package admin

import (
	"io"
	"net/http"
	"strings"

	uploads "github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/store"
)

// logoField is the logo of a site in its form.
type logoField struct {
	store.Logo
	At string // address of the stored logo, "" = there is none
}

// Takes returns the types that the chooser of files offers.
func (logoField) Takes() string { return strings.Join(store.LogoTypes(), ",") }

// MostBytes is the size up to which a file is sent.
func (logoField) MostBytes() int { return store.MaxLogoBytes }

// MostKiB is MostBytes for readers.
func (logoField) MostKiB() int { return store.MaxLogoBytes >> 10 }

// MostSide is the longest side in pixels.
func (logoField) MostSide() int { return store.MaxLogoSide }

func (q *request) logoField(s *store.Site) logoField {
	f := logoField{Logo: s.Logo}
	if s.Logo.Hash != "" {
		f.At = q.p.o.Logo(s)
	}
	return f
}

// logoEntered gives a site the logo of the form. Without a file the logo stays, unless it is to be removed.
func (q *request) logoEntered(s *store.Site) {
	content, err := q.file("logo")
	if err != nil {
		q.wrong("logo", q.T("reason."+store.ReasonDamaged))
		return
	}
	switch {
	case content != nil:
		l, err := uploads.Logo(content)
		if err != nil {
			q.failed(err)
			return
		}
		s.Logo = l
	case q.Value("logo_remove") != "":
		s.Logo = store.Logo{}
	}
}

// file returns the content of a file that was sent with the form, nil if there is none. The bound of the form bounds it.
func (q *request) file(field string) ([]byte, error) {
	f, _, err := q.r.FormFile(field)
	if err != nil {
		if err == http.ErrMissingFile || err == http.ErrNotMultipart { //nolint:errorlint // FormFile returns them unwrapped
			err = nil
		}
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}
