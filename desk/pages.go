package desk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/web"
)

// page is one embedded file, ready to be sent.
type page struct {
	content []byte
	mime    string
	etag    string
}

// loadPages reads the embedded files once. The types are fixed here because the tables of a machine differ.
func loadPages() (map[string]page, error) {
	types := map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml", ".json": "application/json", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2",
	}
	pages := make(map[string]page)
	files := web.Files()
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		mime, known := types[path.Ext(name)]
		if !known {
			return nil
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		pages[name] = page{content, mime, `"` + hex.EncodeToString(sum[:12]) + `"`}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("desk: embedded pages: %w", err)
	}
	return pages, nil
}

// servePage answers with a fixed file.
func (d *Desk) servePage(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { d.sendPage(w, r, name) }
}

// serveAsset answers with the file named in the path; whole pages have addresses of their own.
func (d *Desk) serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("path")
	if strings.HasSuffix(name, ".html") {
		http.NotFound(w, r)
		return
	}
	d.sendPage(w, r, name)
}

func (d *Desk) sendPage(w http.ResponseWriter, r *http.Request, name string) {
	p, ok := d.pages[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", p.mime)
	h.Set("ETag", p.etag)
	h.Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(p.content))
}
