package admin

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strconv"

	"github.com/go-eddy/eddy"
)

//go:embed page
var files embed.FS //nolint:gochecknoglobals // what the build has put there

// assets returns the content types of the files that the pages need, by path.
func assets() map[string]string {
	return map[string]string{
		"/admin.css": "text/css; charset=utf-8",
		"/admin.js":  "text/javascript; charset=utf-8",
		"/admin.svg": "image/svg+xml",
	}
}

// pages holds the pages for browsers.
type pages struct {
	templates *template.Template
	metrics   bool // the page links to /metrics
}

// add adds the routes of the pages and their assets.
func (p *pages) add(s *Server) {
	p.templates = template.Must(template.ParseFS(files, "page/*.html"))
	for path, kind := range assets() {
		body, err := files.ReadFile("page" + path)
		if err != nil {
			panic(err) // the build is broken
		}
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { send(w, http.StatusOK, kind, body) })
	}
	s.mux.HandleFunc("GET /{$}", s.page)
}

func send(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone needs no page
}

// show sends a page.
func (s *Server) show(w http.ResponseWriter, status int, name string, v any) {
	var b bytes.Buffer
	if err := s.pages.templates.ExecuteTemplate(&b, name, v); err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	send(w, status, "text/html; charset=utf-8", b.Bytes())
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	s.show(w, http.StatusOK, "index.html", struct {
		Program, Version string
		Token, Metrics   bool
		States           []eddy.Phase
		Reasons          []eddy.CloseReason
		Sorts            []string
	}{s.program(), s.o.Version, s.guard.token != nil, s.pages.metrics, states, eddy.CloseReasons(), sorts})
}

func (s *Server) showLogin(w http.ResponseWriter, status int, wrong string) {
	s.show(w, status, "login.html", struct{ Program, Wrong string }{s.program(), wrong})
}

func (s *Server) program() string {
	if s.o.Program == "" {
		return "eddy"
	}
	return s.o.Program
}
