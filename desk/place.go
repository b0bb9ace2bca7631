package desk

import (
	"context"
	"path/filepath"

	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/files/objects"
)

// openPlace opens the directory or the bucket of the uploaded files.
func (d *Desk) openPlace(ctx context.Context) (files.Place, error) {
	switch {
	case objects.IsURL(d.o.Files):
		return objects.Open(ctx, objects.Options{
			URL: d.o.Files, MaxSize: d.o.Uploads.MaxSize, Copies: filepath.Join(d.o.DataDir, "scanned"), Logger: d.o.Logger,
		})
	case d.o.Files != "":
		return files.OpenDirectory(d.o.Files, d.o.Store != "")
	}
	return files.OpenDirectory(datadir.Files(d.o.DataDir), d.o.Store != "")
}
