package admin

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/trace"
)

// TestTraces: the slowest requests are listed, and each has its stages, as JSON and as a page.
func TestTraces(t *testing.T) {
	s := newAdmin(t, nil)
	if got := ask(s, "GET", "/traces", ""); got.Code != 200 || strings.TrimSpace(got.Body.String()) != `{"watched":false,"traces":[]}` {
		t.Errorf("without a Recorder: %d %s", got.Code, got.Body)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rec, err := trace.New(trace.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WatchTraces("", rec); err == nil {
		t.Error("a Recorder without a name is watched")
	}
	if err := s.WatchTraces("main", nil); err == nil {
		t.Error("no Recorder is watched")
	}
	if err := s.WatchTraces("main", rec); err != nil {
		t.Fatal(err)
	}
	if err := s.WatchTraces("main", rec); err == nil || !strings.Contains(err.Error(), `Recorder named "main"`) {
		t.Errorf("a second one of a name: %v", err)
	}
	for range maxTraces + 1 {
		r := rec.Begin(trace.Parent{}, trace.About{Protocol: "frame", Name: "<b>/Hello", Peer: netip.MustParseAddrPort("192.0.2.1:7")})
		r.Enter(trace.QueueWait, "business")
		now = now.Add(9 * time.Millisecond)
		r.Enter(trace.Handler, "Hello")
		now = now.Add(time.Millisecond)
		r.End()
	}
	var list struct {
		Watched bool
		Traces  []Trace
	}
	if err := json.Unmarshal(ask(s, "GET", "/traces", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Traces) != maxTraces || !list.Watched {
		t.Fatalf("%d requests are listed", len(list.Traces))
	}
	if first := list.Traces[0]; first.Seconds != 0.01 || first.Reason != "queue wait (business): 90 %" || len(first.Stages) > 0 || first.Number != 1 {
		t.Errorf("%+v", first)
	}
	var one Trace
	if err := json.Unmarshal(ask(s, "GET", "/traces/main/1", "").Body.Bytes(), &one); err != nil {
		t.Fatal(err)
	}
	if len(one.Stages) != 3 || one.Stages[1] != (TraceStage{"queue wait", "business", 0, 0.009}) || one.Peer != "192.0.2.1:7" {
		t.Errorf("%+v", one)
	}
	page := ask(s, "GET", "/traces/main/1/page", "").Body.String()
	for _, want := range []string{"&lt;b&gt;/Hello", "queue wait", "business", "9ms", one.Trace} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for path, want := range map[string]int{"/traces/main/99": 404, "/traces/other/1": 404, "/traces/main/x": 400, "/traces/main/99/page": 404} {
		if got := ask(s, "GET", path, "").Code; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
