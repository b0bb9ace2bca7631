package admin

import (
	"log/slog"
	"net/http"
	"strings"
)

// level is the body of /loglevel, in requests and answers.
type level struct {
	Level string `json:"level"`
}

func (s *Server) logLevel(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, level{strings.ToLower(s.o.Level.Level().String())})
}

func (s *Server) setLogLevel(w http.ResponseWriter, r *http.Request) {
	var in level
	if !accept(w, r, &in) {
		return
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(in.Level)); err != nil || len(in.Level) > 32 {
		fail(w, http.StatusBadRequest, "level is none of debug, info, warn and error, nor one of them with an offset such as debug+2")
		return
	}
	was := s.o.Level.Level()
	s.o.Level.Set(l)
	s.o.Logger.Info("admin: the log level was changed", "from", was, "to", l, "by", r.RemoteAddr)
	s.logLevel(w, r)
}
