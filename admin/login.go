package admin

import (
	"net/http"
)

// loginPage asks for the token. Without a token it redirects to the page.
func (s *Server) loginPage(w http.ResponseWriter, r *http.Request) {
	if s.guard.token == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	s.showLogin(w, http.StatusOK, "")
}

// login exchanges the token for a cookie.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if s.guard.token == nil {
		fail(w, http.StatusNotFound, "this server needs no token")
		return
	}
	if status, err := s.guard.try(r, r.PostFormValue("token")); err != nil {
		s.showLogin(w, status, err.Error())
		return
	}
	http.SetCookie(w, cookie(s.guard.newSession()))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// logout ends the browser's session.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, cookie(""))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
