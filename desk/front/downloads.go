package front

import (
	"context"
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// filePolicy keeps a file that is opened as a page from doing anything.
const filePolicy = "default-src 'none'; sandbox; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	fetchTime  = time.Minute // allowed for any file
	fetchSpeed = 32 << 10    // bytes a second, for which further time is allowed
)

// file sends a file to every client that has its signed address. Customers and staff have separate places and database
// connections.
func (f *Front) file(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	side, err := f.o.Links.Check(r.PathValue("id"), query.Get("e"), query.Get("s"))
	switch {
	case errors.Is(err, files.ErrLinkExpired):
		problem(w, http.StatusGone, &proto.Error{Code: proto.CodeNotFound, Text: "This address is too old. Open the file from the chat again."})
	case err != nil:
		f.Counters.LinksRefused.Add(1)
		problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: "This address is not valid. Open the file from the chat."})
	case side == store.StaffSide:
		f.limited(f.places.staffFetches, func(w http.ResponseWriter, r *http.Request) { f.sendFile(w, r, f.store.Cold(), "staff ") })(w, r)
	default:
		f.limited(f.places.fetches, func(w http.ResponseWriter, r *http.Request) { f.sendFile(w, r, f.store.Hot(), "customer ") })(w, r)
	}
}

func (f *Front) sendFile(w http.ResponseWriter, r *http.Request, from store.Reader, side string) {
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	found, err := from.Attachments(ctx, []string{r.PathValue("id")})
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	if len(found) == 0 || found[0].State != store.FileReady {
		noFile(w)
		return
	}
	a := &found[0]
	key := "fetch " + side + a.Contact
	leave, ok := f.running.Enter(key, fetchesPerChat, f.o.Now())
	if !ok {
		problem(w, http.StatusTooManyRequests, proto.Later(proto.CodeRateLimited, "Too many files at once. Try again in a moment.", time.Second))
		return
	}
	defer leave()
	content, err := f.o.Files.Open(r.Context(), a.Storage)
	switch {
	case err == nil:
	case errors.Is(err, files.ErrUnavailable):
		problem(w, http.StatusServiceUnavailable, proto.Later(proto.CodeUnavailable, "The file cannot be read now. Try again in a moment.", time.Second))
		return
	default:
		if !errors.Is(err, os.ErrNotExist) && r.Context().Err() == nil {
			f.o.Logger.Error("desk: a file cannot be read", "file", a.ID, "err", err)
		}
		noFile(w)
		return
	}
	defer func() { _ = content.Close() }()
	f.Counters.FilesSent.Add(1)
	allowed := fetchTime + time.Duration(a.Size/fetchSpeed)*time.Second
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(allowed)) // a server without deadlines has its own
	fileHeader(w.Header(), a)
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // each of several ranges would be a request to an object store; all of the file is right, too
	}
	http.ServeContent(w, r, "", time.UnixMilli(a.Created), content)
}

func noFile(w http.ResponseWriter) {
	problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such file, or it is not ready."})
}

// fileHeader sets the headers of a file. They say what the file is and keep it away from the pages. Only pictures that
// browsers draw themselves may be shown in a page.
func fileHeader(h http.Header, a *store.Attachment) {
	disposition := "attachment"
	if files.Inline(a.Type) {
		disposition = "inline"
	}
	h.Set("Content-Type", a.Type)
	if strings.HasPrefix(a.Type, "text/") {
		h.Set("Content-Type", "application/octet-stream") // the encoding is not known, and nothing shows the text
	}
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": a.Name}))
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, max-age=600, immutable")
	h.Set("ETag", `"`+hex.EncodeToString(a.SHA256[:])+`"`)
}
