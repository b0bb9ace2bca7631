package front

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/poll"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/http1"
)

const (
	pollAPI     = "/api/v1/poll"            // of both roles, like /ws
	maxPollBody = proto.MaxAgentBytes + 256 // one command of the largest size, or many small ones
	pollRetry   = 10 * time.Second          // for a client that finds too many sessions
)

// pollRoutes adds the long poll, for clients whose WebSockets do not come through.
func (f *Front) pollRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST "+pollAPI+"/open", f.pollOpen)
	mux.HandleFunc("POST "+pollAPI+"/close", f.pollClose)
	mux.HandleFunc("POST "+pollAPI, f.pollSend)
	mux.HandleFunc("GET "+pollAPI, f.pollEvents)
}

// newPolls returns the table of the poll sessions.
func (f *Front) newPolls() *poll.Table {
	return poll.NewTable(f.o.MaxConns, func(c hub.Conn, p hub.Peer) poll.Receiver { return f.hub.Connect(c, p) })
}

// pollOpen begins a session by the checks and limits of a WebSocket.
func (f *Front) pollOpen(w http.ResponseWriter, r *http.Request) {
	peer, leave, ok := f.connects(w, r)
	if !ok {
		return
	}
	s, err := f.entry.polls.Open(peer, leave)
	if err != nil {
		leave()
		f.Counters.SocketsRefused.Add(1)
		code, text := proto.CodeUnavailable, "The server is shutting down."
		if errors.Is(err, poll.ErrFull) {
			code, text = proto.CodeBusy, fmt.Sprintf("%d clients are connected like this, the limit of this server.", f.o.MaxConns)
		}
		problem(w, http.StatusServiceUnavailable, proto.Later(code, text, pollRetry))
		return
	}
	answerStatus(w, http.StatusCreated, struct {
		ID     string `json:"id"`
		WaitMS int64  `json:"wait_ms"`
		DeadMS int64  `json:"dead_ms"`
	}{s.ID, poll.Wait.Milliseconds(), poll.Silence.Milliseconds()})
}

// pollOf returns the session of a request. Only the page and the login that have opened it know it. false means that the
// answer has been given.
func (f *Front) pollOf(w http.ResponseWriter, r *http.Request) (*poll.Session, bool) {
	s := f.entry.polls.Find(bearer(r))
	if s != nil && s.Peer.Origin == foreign(r) && (s.Peer.Login == noLogin || s.Peer.Login == f.cookieToken(r)) {
		return s, true
	}
	problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such session (any more). Open one."})
	return nil, false
}

// numberOf reads a number of the query. false means that the answer has been given.
func numberOf(w http.ResponseWriter, r *http.Request, name string) (uint64, bool) {
	n, err := strconv.ParseUint(r.URL.Query().Get(name), 10, 63)
	if err != nil {
		problem(w, http.StatusBadRequest, &proto.Error{Code: proto.CodeBadRequest, Text: "The parameter " + name + " must be a number."})
	}
	return n, err == nil
}

// pollSend gives commands to a session. Nothing in it blocks.
func (f *Front) pollSend(w http.ResponseWriter, r *http.Request) {
	s, ok := f.pollOf(w, r)
	if !ok {
		return
	}
	n, ok := numberOf(w, r, "n")
	if !ok {
		return
	}
	body, ok := jsonBody(w, r, maxPollBody)
	if !ok {
		return
	}
	commands, err := poll.Split(body)
	if err != nil || !utf8.Valid(body) {
		problem(w, http.StatusBadRequest, &proto.Error{Code: proto.CodeBadRequest, Text: "The body is not an array of commands in JSON."})
		return
	}
	if end := s.Over(); end != nil {
		problem(w, http.StatusGone, &proto.Error{Code: proto.CodeClosed, Text: fmt.Sprintf("The session is over (%d): %s", end.Code, end.Reason)})
		return
	}
	next, ok := s.Commands(n, commands)
	if !ok {
		problem(w, http.StatusConflict, &proto.Error{Code: proto.CodeOutOfOrder, Text: fmt.Sprintf("This is request %d, and %d comes next.", n, next)})
		return
	}
	answer(w, struct {
		Next uint64 `json:"next"`
	}{next})
}

// pollEvents waits for events. The request holds its connection, and no worker.
func (f *Front) pollEvents(w http.ResponseWriter, r *http.Request) {
	s, ok := f.pollOf(w, r)
	if !ok {
		return
	}
	after, ok := numberOf(w, r, "after")
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	later, err := http1.Suspend(w)
	if err != nil {
		problem(w, http.StatusNotImplemented, &proto.Error{Code: proto.CodeInternal, Text: "This server cannot wait."})
		return
	}
	if err := s.Poll(after, func(body []byte) { _ = later.Resume(http.StatusOK, body) }); err != nil { // lost answers are asked for again
		w.Header().Set("Content-Type", "application/problem+json")
		_ = later.Resume(http.StatusBadRequest, problemBody(http.StatusBadRequest, &proto.Error{Code: proto.CodeBadRequest, Text: err.Error()}))
	}
}

func (f *Front) pollClose(w http.ResponseWriter, r *http.Request) {
	if s, ok := f.pollOf(w, r); ok {
		s.Leave()
		w.WriteHeader(http.StatusNoContent)
	}
}

// isPoll reports whether a path belongs to the long poll, which pages of a site's origins may use, as they may use /ws.
func isPoll(path string) bool { return path == pollAPI || strings.HasPrefix(path, pollAPI+"/") }
