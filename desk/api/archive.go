package api

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Archive writes everything that is stored about a person as a ZIP archive: contact.json, chats/<id>.json for each
// conversation, and files/<id>/<name> for each file in them. The objects are those of the API. Memory does not grow with
// what there is.
type Archive struct {
	Store store.Store
	Open  func(storage string) (io.ReadCloser, error) // of a file's bytes; fs.ErrNotExist: they are gone
	Next  func(bytes int64)                           // called before each piece with its size, 0 = small
}

const (
	archiveChats  = 20
	archiveEvents = 200
)

// archiveWriter is one archive that is being written.
type archiveWriter struct {
	*Archive
	ctx   context.Context
	zip   *zip.Writer
	sites map[string]string
}

// Write writes the archive of a contact. After an error the archive is not whole.
func (a *Archive) Write(ctx context.Context, w io.Writer, c *store.Contact) error {
	all := API{Store: a.Store}
	sites, err := all.sites(ctx)
	if err != nil {
		return err
	}
	x := &archiveWriter{a, ctx, zip.NewWriter(w), sites}
	if err := x.contact(c); err != nil {
		return err
	}
	for cursor, more := "", true; more; more = cursor != "" {
		var page []store.Past
		page, cursor, err = a.Store.Cold().History(ctx, store.Scope{All: true}, store.Filter{Contact: c.ID}, cursor, archiveChats)
		if err != nil {
			return err
		}
		for i := range page {
			if err := x.chat(&page[i]); err != nil {
				return err
			}
		}
	}
	return x.zip.Close()
}

func (x *archiveWriter) create(name string, at int64, method uint16) (io.Writer, error) {
	return x.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: time.UnixMilli(at).UTC()})
}

func (x *archiveWriter) contact(c *store.Contact) error {
	visit, _, err := x.Store.Cold().Visits(x.ctx, c.ID)
	if err != nil {
		return err
	}
	note, err := x.Store.Cold().ContactNote(x.ctx, c.ID)
	if err != nil {
		return err
	}
	known, err := contactOf(x.ctx, x.Store.Cold(), c, x.sites[c.Site])
	if err != nil {
		return err
	}
	w, err := x.create("contact.json", c.Created, zip.Deflate)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(struct {
		Contact
		Visit store.Facts `json:"visit"`
		Note  string      `json:"note"` // of staff
	}{known, visit, note})
}

// chat writes a conversation, and behind it the files of its messages, whose names are all that is kept meanwhile.
func (x *archiveWriter) chat(p *store.Past) error {
	w, err := x.create("chats/"+p.ID+".json", p.OpenedAt, zip.Deflate)
	if err != nil {
		return err
	}
	head, err := json.Marshal(struct {
		Detail
		Page string `json:"page"`
	}{Detail{conversation(&p.Conversation, x.sites), p.CloseReason, p.Comment}, p.Page})
	if err != nil {
		return err
	}
	if _, err := w.Write(append(append([]byte(`{"conversation":`), head...), `,"events":[`...)); err != nil {
		return err
	}
	files, err := x.events(w, p.ID)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, "]}\n"); err != nil {
		return err
	}
	for i := range files {
		if err := x.file(&files[i]); err != nil {
			return err
		}
	}
	return nil
}

// events writes the events of a conversation, one a line, and returns their files.
func (x *archiveWriter) events(w io.Writer, conv string) (files []store.Attachment, err error) {
	before := "\n"
	for after, more := uint64(0), true; more; {
		var page []store.Event
		x.Next(maxPageBytes)
		if page, more, err = x.Store.Cold().Events(x.ctx, conv, store.StaffSide, after, archiveEvents, maxPageBytes); err != nil {
			return files, err
		}
		for i := range page {
			line, err := json.Marshal(event(&page[i]))
			if err != nil {
				return files, err
			}
			if _, err := w.Write(append([]byte(before), line...)); err != nil {
				return files, err
			}
			files = append(files, page[i].Files...)
			before, after = ",\n", page[i].Seq
		}
	}
	return files, nil
}

// file copies the bytes of a file. Those that a scanner has refused are gone, and those that are lost must not hide the
// rest.
func (x *archiveWriter) file(a *store.Attachment) error {
	content, err := x.Open(a.Storage)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	x.Next(a.Size)
	w, err := x.create("files/"+a.ID+"/"+a.Name, a.Created, zip.Store)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return err
}
