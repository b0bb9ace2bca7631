package front

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/web"
)

// page is one embedded file, ready to be sent.
type page struct {
	content []byte
	packed  []byte // content in gzip, nil when that is not smaller
	mime    string
	etag    string
	cache   string   // Cache-Control
	parts   [][]byte // of a whole page: the text around its nonces
}

const (
	cacheForever = "public, max-age=31536000, immutable" // of a name that changes with the content
	cacheAsk     = "no-cache"
	cacheLoader  = "public, max-age=600" // of /widget.js, which every page of a customer's site asks for by the same name
)

// asset matches a page's reference to an embedded file.
var asset = regexp.MustCompile(`((?:src|href)=")/assets/([^"]+)"`)

// embeddedPages returns the pages without languages of an operator, made once for all desks of the process. Nobody
// changes them.
var embeddedPages = sync.OnceValues(func() (map[string]page, error) {
	languages, err := loadLanguages("")
	if err != nil {
		return nil, err
	}
	return loadPages(languages)
})

// pageTypes are fixed here because the tables of machines differ.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".json": "application/json", ".webmanifest": "application/manifest+json", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2",
}

// loadPages reads the embedded files. Each file has its own name, under which browsers ask every time. A second name
// contains a hash of the content and may be cached for ever. Whole pages refer to the second names, and an import map in
// them makes modules do so too. The customer page also names the languages.
func loadPages(languages map[string]web.Language) (map[string]page, error) {
	pages := make(map[string]page)
	hashed := make(map[string]string) // name -> name with hash
	add := func(name string, content []byte) (err error) {
		mime, known := pageTypes[path.Ext(name)]
		if !known {
			return nil
		}
		sum := sha256.Sum256(content)
		p := page{content: content, mime: mime, etag: hex.EncodeToString(sum[:12]), cache: cacheAsk}
		if path.Ext(name) == ".html" {
			pages[name] = p
			return nil
		}
		if p.packed, err = pack(content); err != nil {
			return err
		}
		pages[name] = p
		p.cache = cacheForever
		hashed[name] = strings.TrimSuffix(name, path.Ext(name)) + "." + hex.EncodeToString(sum[:6]) + path.Ext(name)
		pages[hashed[name]] = p
		return nil
	}
	files := web.Files()
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Dir(name) == languageFolder {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return add(name, web.Lean(name, content))
	})
	if err != nil {
		return nil, fmt.Errorf("desk: embedded pages: %w", err)
	}
	offered, err := offer(languages, add, hashed)
	if err != nil {
		return nil, fmt.Errorf("desk: languages: %w", err)
	}
	imports := make(map[string]string)
	for name := range hashed {
		if strings.HasPrefix(name, "js/") {
			imports["/assets/"+name] = "/assets/" + hashed[name]
		}
	}
	table, err := json.Marshal(map[string]any{"imports": imports})
	if err != nil {
		return nil, fmt.Errorf("desk: import map: %w", err)
	}
	for name, p := range pages {
		if path.Ext(name) == ".html" {
			p.content = bytes.Replace(p.content, []byte(languagesMark), offered, 1)
			p.parts = bytes.Split(withImportMap(p.content, hashed, table), []byte(nonceMark))
			pages[name] = p
		}
	}
	loader := pages["widget.js"]
	loader.cache = cacheLoader
	pages["widget.js"] = loader
	return pages, nil
}

const nonceMark = "\x00"

// withImportMap makes a page refer to its files by their hashed names. The map must come before the first module.
func withImportMap(content []byte, hashed map[string]string, table []byte) []byte {
	content = asset.ReplaceAllFunc(content, func(ref []byte) []byte {
		m := asset.FindSubmatch(ref)
		if name, ok := hashed[string(m[2])]; ok {
			return fmt.Appendf(nil, `%s/assets/%s"`, m[1], name)
		}
		return ref
	})
	at := bytes.Index(content, []byte("<link"))
	if at < 0 || !bytes.Contains(content, []byte(`type="module"`)) {
		return content
	}
	script := fmt.Appendf(nil, "<script type=\"importmap\" nonce=\"%s\">%s</script>\n\t", nonceMark, table)
	return bytes.Join([][]byte{content[:at], script, content[at:]}, nil)
}

func pack(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil || b.Len() >= len(content) {
		return nil, err
	}
	return b.Bytes(), nil
}

// servePage answers with a fixed file.
func (f *Front) servePage(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { f.sendPage(w, r, name) }
}

// serveShop answers with the demo shop, the only page of ours that embeds the widget.
func (f *Front) serveShop(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	policy := strings.Replace(h.Get("Content-Security-Policy"), "trusted-types 'none'", "trusted-types eddy-desk", 1) // of the loader
	h.Set("Content-Security-Policy", "frame-src 'self'; "+policy)
	f.sendPage(w, r, "shop.html")
}

// serveWidget answers with the customer page, for a frame in our own pages and in pages of the site's origins. If the
// site cannot be read, only our own pages may frame it. The page itself then says what is wrong.
func (f *Front) serveWidget(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	site, err := f.store.Hot().SiteByKey(ctx, r.PathValue("site"))
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, context.Canceled) {
		f.o.Logger.Warn("desk: the origins of a site cannot be read", "err", err)
	}
	ancestors := strings.Join(append([]string{"frame-ancestors 'self'"}, site.Settings.Origins...), " ") // the store takes nothing that ends a directive
	h := w.Header()
	h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), "frame-ancestors 'none'", ancestors, 1))
	f.sendPage(w, r, "customer.html")
}

// serveAsset answers with the file named in the path; whole pages have addresses of their own.
func (f *Front) serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("path")
	if strings.HasSuffix(name, ".html") {
		f.missing(w, r)
		return
	}
	f.sendPage(w, r, name)
}

func (f *Front) sendPage(w http.ResponseWriter, r *http.Request, name string) {
	p, ok := f.pages[name]
	if !ok {
		f.missing(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", p.mime)
	h.Set("Cache-Control", p.cache)
	if p.parts != nil {
		nonce := rand.Text()
		h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), "script-src 'self'", "script-src 'self' 'nonce-"+nonce+"'", 1))
		_, _ = w.Write(bytes.Join(p.parts, []byte(nonce))) // a failing connection closes itself
		return
	}
	content, etag := p.content, p.etag
	if p.packed != nil {
		h.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header) {
			content, etag = p.packed, p.etag+"-gz"
			h.Set("Content-Encoding", "gzip")
		}
	}
	h.Set("ETag", `"`+etag+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// refusePage answers a person with a page that says why there is nothing else. The page has no script.
func (f *Front) refusePage(w http.ResponseWriter, status int, name string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.Join(f.pages[name].parts, nil)) // a failing connection closes itself
}

// missing answers a request for something that does not exist: a browser with a page, a program with a line.
func (f *Front) missing(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	switch {
	case wantsPage(r):
		f.refusePage(w, http.StatusNotFound, "missing.html")
	case isPage(r):
		http.NotFound(w, r)
	default:
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is nothing at this address."})
	}
}

// wantsPage reports whether a person will read the answer. Browsers name HTML when they open a page.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// routed serves what mux knows, and says of everything else that it is missing.
func (f *Front) routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		var others []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost} {
			asked := r.WithContext(r.Context())
			asked.Method = method
			if _, pattern := mux.Handler(asked); pattern != "" {
				others = append(others, method)
			}
		}
		switch {
		case len(others) == 0:
			f.missing(w, r)
		case isPage(r):
			mux.ServeHTTP(w, r) // which says what to use
		default:
			allow := strings.Join(others, ", ")
			w.Header().Set("Allow", allow)
			problem(w, http.StatusMethodNotAllowed, &proto.Error{Code: proto.CodeBadRequest, Text: "This address takes " + allow + " only."})
		}
	})
}

// acceptsGzip reports whether the client names gzip among its encodings. gzip with a quality of zero counts as not
// named.
func acceptsGzip(h http.Header) bool {
	for _, line := range h.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(line, ",") {
			coding, quality, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				q := strings.ReplaceAll(strings.ToLower(quality), " ", "")
				return strings.Trim(strings.TrimPrefix(q, "q="), "0.") != "" || q == ""
			}
		}
	}
	return false
}
