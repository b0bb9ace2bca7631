package desktest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Ask makes one request to a handler, without a network. Extra are header names and values in turn.
func Ask(h http.Handler, method, path, body string, extra ...string) (int, *http.Response) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(extra); i += 2 {
		r.Header.Set(extra[i], extra[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Result()
}

// Into decodes the JSON body of an answer.
func Into[T any](t testing.TB, r *http.Response) (v T) {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return v
}

// AuditLines waits for at least want lines of the audit log, since refusals are written down without waiting.
func AuditLines(t testing.TB, s store.Store, q store.AuditQuery, want int) []store.AuditRow {
	t.Helper()
	var rows []store.AuditRow
	testkit.Eventually(t, "the lines of the audit log", func() bool {
		var err error
		if rows, err = s.Cold().Audit(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		return len(rows) >= want
	})
	return rows
}

// Clock is the time of a Desk that its test moves on.
type Clock struct {
	began time.Time
	by    atomic.Int64
}

// NewClock returns a clock that shows the present time until it is moved.
func NewClock() *Clock { return &Clock{began: time.Now()} }

// Now returns the time the clock shows.
func (c *Clock) Now() time.Time { return c.began.Add(time.Duration(c.by.Load())) }

// Move lets time pass.
func (c *Clock) Move(d time.Duration) { c.by.Add(int64(d)) }
