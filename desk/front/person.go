package front

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-eddy/eddy/desk/api"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	exportPlaces = 2
	exportTime   = 30 * time.Minute // of one archive
)

// personRoutes adds what concerns everything that is stored about a person.
func (f *Front) personRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/agent/contacts/{id}/export", f.staffIn(f.places.exports, exportTime, perm.Personal, f.exportPerson))
}

// exportPerson sends everything that is stored about a contact as one archive. It is recorded before anything is sent.
// When it cannot go on, the connection breaks, so that nobody takes a part for all of it.
func (f *Front) exportPerson(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	id := r.PathValue("id")
	c, err := f.store.Cold().Contact(r.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such contact."})
		return
	}
	if err == nil {
		err = f.audit(r.Context(), s.Agent.Actor(), store.AuditExport, "contact "+id, "", f.address(r))
	}
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", `attachment; filename="contact-`+id+`.zip"`)
	h.Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	archive := api.Archive{
		Store: f.store, Open: func(storage string) (io.ReadCloser, error) { return f.o.Files.Open(r.Context(), storage) },
		Next: func(bytes int64) {
			_ = out.SetWriteDeadline(time.Now().Add(fetchTime + time.Duration(bytes/fetchSpeed)*time.Second)) // a server without deadlines has its own
			_ = out.Flush()                                                                                   // a handler that streams holds no worker; a failing connection shows at the next write
		},
	}
	if err := archive.Write(r.Context(), w, &c); err != nil {
		if !errors.Is(err, context.Canceled) {
			f.o.Logger.Warn("desk: an export was not finished", "contact", id, "err", err)
		}
		panic(http.ErrAbortHandler)
	}
}
