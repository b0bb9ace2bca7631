package admin

import (
	"net/http"
)

// pages adds the routes of the page.
func (s *Server) pages() {}

func (s *Server) showLogin(w http.ResponseWriter, status int, wrong string) {
	reply(w, status, problem{wrong})
}
