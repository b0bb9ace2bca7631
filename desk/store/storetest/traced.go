package storetest

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/trace"
)

// recorded begins a sampled request.
func (r *rig) recorded(name string) (*trace.Recorder, *trace.Request) {
	r.t.Helper()
	rec, err := trace.New(trace.Options{Sample: 1})
	r.must(err)
	return rec, rec.Begin(trace.Parent{}, trace.About{Protocol: "desk", Name: name})
}

// testTraced: the rows of a command have its trace, those of others have none, and those that a webhook keeps keep it. The request
// learns when its command is executed, and its command may be refused like any other.
func testTraced(t *testing.T, r *rig) {
	ctx := t.Context()
	w := r.webhook()
	ann := r.visitor()
	_, opened := r.recorded("conv.open")
	conv := r.do(store.Trace(store.Open{Contact: ann, Human: true}, opened)).Conv
	rec, sent := r.recorded("msg.send")
	self := sent.Self()
	r.do(store.Trace(text(conv.ID, ann.Actor(), "hello"), sent))
	r.do(store.Trace(text(conv.ID, ann.Actor(), "not sampled"), nil))
	r.refused(store.Trace(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.moe.Actor()}, sent), store.ErrConflict)
	_, patched := r.recorded("contact.patch")
	_, err := r.PatchContact(patched.Within(ctx), store.ContactPatch{Contact: ann.ID, Name: "Ann"})
	r.must(err)
	_, err = r.PatchContact(ctx, store.ContactPatch{Contact: ann.ID, Name: "Anna"})
	r.must(err)
	a, b := opened.Self(), patched.Self()
	want := []string{a.Traceparent(), self.Traceparent(), "", b.Traceparent(), ""}
	rows := r.outbox(0)
	var got []string
	for _, row := range rows {
		got = append(got, row.Trace)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the rows have %q, want %q", got, want)
	}
	r.behind()
	var told []string
	for _, part := range r.reread(rows[0].Seq-1, 100) {
		told = append(told, part.Trace)
	}
	parts := r.feed.all()
	if !reflect.DeepEqual(told, want) || parts[len(parts)-2].Trace != want[3] || parts[len(parts)-1].Trace != "" {
		t.Errorf("the feed tells %q, want %q", told, want)
	}
	r.must(r.SaveHook(ctx, store.HookProgress{Hook: w.ID, Position: rows[4].Seq, Keep: []store.HookEvent{{OutboxRow: rows[1], Attempts: 1, Failure: "no"}}}))
	if work, err := r.Cold().HookWork(ctx, w.ID, r.now().UnixMilli(), 10); err != nil || len(work.Due) != 1 || work.Due[0].Trace != want[1] {
		t.Errorf("kept for a webhook: %+v, %v", work.Due, err)
	}
	sent.End()
	sum := rec.Slowest()[0]
	if last := sum.Stages[len(sum.Stages)-1]; sum.Failed != "" || last.Stage != trace.Handler || last.Where != "store" || last.Took > time.Hour {
		t.Errorf("%+v", sum)
	}
}
