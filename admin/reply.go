package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
)

// reply sends v as JSON.
func reply(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "admin: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that has gone needs no answer
}

// problem is the body of a refusal.
type problem struct {
	Error string `json:"error"`
}

// fail refuses a request.
func fail(w http.ResponseWriter, status int, text string) { reply(w, status, problem{text}) }

// busy refuses a request with 503 and Retry-After.
func busy(w http.ResponseWriter, text string) {
	w.Header().Set("Retry-After", "1")
	fail(w, http.StatusServiceUnavailable, text)
}

// accept decodes a JSON body into v. If it cannot, it answers why and returns false. The required Content-Type keeps out forms
// of other sites, which cannot send it.
func accept(w http.ResponseWriter, r *http.Request, v any) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		fail(w, http.StatusUnsupportedMediaType, "the body has to be application/json, and Content-Type has to say so")
		return false
	}
	d := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("there is more after the object")
	}
	if err != nil {
		fail(w, http.StatusBadRequest, fmt.Sprintf("the body is not what it should be: %.200s", err))
		return false
	}
	return true
}
