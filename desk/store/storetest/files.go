package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/store"
)

// upload adds a file of a thousand bytes.
func (r *rig) upload(conv string, by store.Actor, change ...func(*store.Attachment)) store.Attachment {
	r.t.Helper()
	a := store.Attachment{
		Conv: conv, Uploader: by, Name: "photo.png", Type: "image/png", Size: 1000, Width: 40, Height: 30, SHA256: [32]byte{1, 2},
		Storage: uuid.NewString(), State: store.FileReady,
	}
	for _, f := range change {
		f(&a)
	}
	a, err := r.AddAttachment(r.t.Context(), a, store.Quota{})
	r.must(err)
	return a
}

func (r *rig) file(id string) store.Attachment {
	r.t.Helper()
	files, err := r.Cold().Attachments(r.t.Context(), []string{"no such file", id})
	r.must(err)
	if len(files) != 1 || files[0].ID != id {
		r.t.Fatalf("file %s: %+v", id, files)
	}
	return files[0]
}

func withFiles(conv string, from store.Actor, body string, files ...store.Attachment) store.Append {
	msg := text(conv, from, body)
	for _, a := range files {
		msg.Attachments = append(msg.Attachments, a.ID)
	}
	return msg
}

func testFiles(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	first, second := r.upload(conv.ID, ann.Actor()), r.upload(conv.ID, ann.Actor(), func(a *store.Attachment) { a.Name = "two.png" })
	if got := r.file(first.ID); got.Contact != ann.ID || got.Site != r.site.ID || got.PSeq != 0 || got.Seq != 0 || got.Name != "photo.png" || got.Type != "image/png" ||
		got.Size != 1000 || got.Width != 40 || got.Height != 30 || got.SHA256 != first.SHA256 || got.Storage != first.Storage || got.Created == 0 || !got.Uploader.Is(ann.Actor()) {
		t.Fatalf("%+v, added %+v", got, first)
	}
	msg := withFiles(conv.ID, ann.Actor(), "", second, first) // in the order of the sender
	sent := r.do(msg)
	e := sent.Events[0]
	if e.Kind != store.KindFile || len(e.Files) != 2 || e.Files[0].ID != second.ID || e.Files[1].ID != first.ID || sent.Conv.Preview != "two.png" || sent.Conv.PreviewFrom != store.Customer {
		t.Fatalf("%+v of %+v", e, sent.Conv)
	}
	again := r.do(msg)
	if !again.Dup || again.Events[0].ID != e.ID {
		t.Fatalf("again: %+v", again)
	}
	note := r.do(store.Append{Conv: conv.ID, From: r.moe.Actor(), ClientID: uuid.NewString(), Note: true, Attachments: []string{r.upload(conv.ID, r.moe.Actor()).ID}})
	for side, want := range map[store.Side]int{store.CustomerSide: 1, store.StaffSide: 2} {
		var got []store.Event
		for _, x := range r.events(conv.ID, side) {
			if len(x.Files) > 0 {
				got = append(got, x)
			}
		}
		if len(got) != want || got[0].ID != e.ID || got[0].Kind != store.KindFile || got[0].Files[0].ID != second.ID || got[0].Files[1].ID != first.ID {
			t.Fatalf("side %d: %+v", side, got)
		}
		if want == 2 && (got[1].ID != note.Events[0].ID || got[1].Kind != store.KindNote) {
			t.Errorf("note: %+v", got[1])
		}
	}
	if a := r.file(first.ID); a.Seq != e.Seq || a.PSeq != e.PSeq {
		t.Errorf("sent: %+v, event %+v", a, e)
	}
	if a := r.file(note.Events[0].Files[0].ID); a.Seq != note.Events[0].Seq || a.PSeq != 0 {
		t.Errorf("in a note: %+v", a)
	}
}

func testFileRefusals(t *testing.T, r *rig) {
	ann, ben := r.visitor(), r.visitor()
	conv, other := r.assigned(ann, r.moe), r.assigned(ben, r.moe)
	good := r.upload(conv.ID, ann.Actor())
	checking := func(a *store.Attachment) { a.State = store.FileChecking }
	refused := r.upload(conv.ID, ann.Actor(), checking)
	if a, err := r.DecideAttachment(t.Context(), refused.ID, false); err != nil || a.State != store.FileRefused {
		t.Fatal(a, err)
	}
	bound := r.upload(conv.ID, ann.Actor())
	r.do(withFiles(conv.ID, ann.Actor(), "x", bound))
	before := len(r.events(conv.ID, store.StaffSide))
	for name, a := range map[string]store.Attachment{
		"unknown":                    {ID: "nope"},
		"already sent":               bound,
		"refused":                    refused,
		"of staff":                   r.upload(conv.ID, r.moe.Actor()),
		"of another customer":        r.upload(other.ID, ben.Actor()),
		"of another conversation":    r.upload(other.ID, r.moe.Actor()),
		"of an agent called like it": r.upload(conv.ID, store.Actor{Kind: store.Agent, ID: ann.ID}),
	} {
		r.refused(withFiles(conv.ID, ann.Actor(), name, good, a), store.ErrFile)
		if got := r.file(good.ID); got.Seq != 0 {
			t.Fatalf("%s: the other file was bound: %+v", name, got)
		}
	}
	if after := len(r.events(conv.ID, store.StaffSide)); after != before {
		t.Errorf("refused messages left %d events", after-before)
	}
	r.do(withFiles(conv.ID, ann.Actor(), "still there", good))

	for name, c := range map[string]struct {
		conv string
		by   store.Actor
	}{
		"unknown conversation": {"nope", ann.Actor()}, "another's": {conv.ID, ben.Actor()},
	} {
		a := store.Attachment{Conv: c.conv, Uploader: c.by, Storage: uuid.NewString(), State: store.FileReady}
		if _, err := r.AddAttachment(t.Context(), a, store.Quota{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("upload to %s: %v", name, err)
		}
	}
	if _, err := r.DecideAttachment(t.Context(), "nope", true); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deciding an unknown file: %v", err)
	}
	if a, err := r.DecideAttachment(t.Context(), refused.ID, true); err != nil || a.State != store.FileRefused {
		t.Errorf("decided again: %+v %v", a, err)
	}
}

func testFileStates(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.moe)
	var ids []string
	for range 3 {
		a := r.upload(conv.ID, ann.Actor(), func(a *store.Attachment) { a.State = store.FileChecking })
		ids = append(ids, a.ID)
		r.shift.Add(int64(time.Second))
	}
	sent := r.do(withFiles(conv.ID, ann.Actor(), "x", r.file(ids[0]), r.file(ids[1]), r.file(ids[2])))
	if sent.Events[0].Files[0].State != store.FileChecking {
		t.Fatalf("%+v", sent.Events[0])
	}
	if waiting, err := r.Cold().Checking(t.Context(), 2); err != nil || len(waiting) != 2 || waiting[0].ID != ids[0] || waiting[1].ID != ids[1] {
		t.Fatalf("%+v %v", waiting, err)
	}
	for i, ok := range []bool{true, false} {
		a, err := r.DecideAttachment(t.Context(), ids[i], ok)
		if want := map[bool]string{true: store.FileReady, false: store.FileRefused}[ok]; err != nil || a.State != want || a.PSeq != sent.Events[0].PSeq || a.Contact != ann.ID {
			t.Fatalf("%+v %v", a, err)
		}
	}
	events := r.events(conv.ID, store.CustomerSide)
	states := fmt.Sprint(events[len(events)-1].Files[0].State, events[len(events)-1].Files[1].State, events[len(events)-1].Files[2].State)
	if want := fmt.Sprint(store.FileReady, store.FileRefused, store.FileChecking); states != want {
		t.Errorf("read back: %s, want %s", states, want)
	}
	ready, refused, checking := r.file(ids[0]).Storage, r.file(ids[1]).Storage, r.file(ids[2]).Storage
	stored, err := r.Cold().Stored(t.Context(), []string{ready, refused, checking, "nope"})
	if err != nil || len(stored) != 2 || !stored[ready] || !stored[checking] {
		t.Errorf("%v %v", stored, err)
	}
	if sum, err := r.Cold().SiteBytes(t.Context()); err != nil || len(sum) != 1 || sum[r.site.ID] != 2000 {
		t.Errorf("%v %v", sum, err)
	}
}

func testFileQuota(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.moe)
	start := time.Now().UnixMilli() - 1
	r.do(withFiles(conv.ID, ann.Actor(), "x", r.upload(conv.ID, ann.Actor())))
	r.upload(conv.ID, ann.Actor())
	r.upload(conv.ID, r.moe.Actor()) // counts for somebody else
	left, err := r.Hot().Uploads(t.Context(), ann.Actor(), start)
	if want := (store.Uploads{Bytes: 2000, Count: 2, Loose: 1}); err != nil || left != want {
		t.Fatalf("%+v %v", left, err)
	}
	try := func(q store.Quota) error {
		q.Since = start
		_, err := r.AddAttachment(t.Context(), store.Attachment{Conv: conv.ID, Uploader: ann.Actor(), Size: 1000, Storage: uuid.NewString(), State: store.FileReady}, q)
		return err
	}
	for name, q := range map[string]store.Quota{"bytes": {Bytes: 2999}, "count": {Count: 2}, "loose": {Loose: 1}} {
		if err := try(q); !errors.Is(err, store.ErrQuota) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := try(store.Quota{Bytes: 3000, Count: 3, Loose: 2}); err != nil {
		t.Errorf("as much as the quota: %v", err)
	}
	r.shift.Add(int64(time.Hour))
	if left, err := r.Hot().Uploads(t.Context(), ann.Actor(), time.Now().Add(time.Minute).UnixMilli()); err != nil || left != (store.Uploads{Loose: 2}) {
		t.Errorf("later: %+v %v", left, err)
	}
}

func testLoose(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.moe)
	sent, old := r.upload(conv.ID, ann.Actor()), r.upload(conv.ID, ann.Actor())
	r.do(withFiles(conv.ID, ann.Actor(), "x", sent))
	r.shift.Add(int64(time.Hour))
	limit := time.Now().Add(30 * time.Minute).UnixMilli()
	young := r.upload(conv.ID, ann.Actor())
	if dropped, err := r.DropLoose(t.Context(), limit, 0); err != nil || len(dropped) != 0 {
		t.Fatalf("none asked for: %+v %v", dropped, err)
	}
	dropped, err := r.DropLoose(t.Context(), limit, 10)
	if err != nil || len(dropped) != 1 || dropped[0].ID != old.ID || dropped[0].Storage != old.Storage {
		t.Fatalf("%+v %v", dropped, err)
	}
	left, err := r.Cold().Attachments(t.Context(), []string{sent.ID, old.ID, young.ID})
	if err != nil || len(left) != 2 {
		t.Fatalf("%+v %v", left, err)
	}
	r.refused(withFiles(conv.ID, ann.Actor(), "x", old), store.ErrFile)
}

func testSecret(t *testing.T, r *rig) {
	one, err := r.Secret(t.Context(), "files")
	r.must(err)
	two, err := r.Secret(t.Context(), "files")
	r.must(err)
	other, err := r.Secret(t.Context(), "other")
	r.must(err)
	if len(one) != 32 || !bytes.Equal(one, two) || bytes.Equal(one, other) || bytes.Equal(one, make([]byte, 32)) {
		t.Errorf("%x, again %x, another %x", one, two, other)
	}
}

// testFilesAt: the first directory counts, whoever asks next.
func testFilesAt(t *testing.T, r *rig) {
	ids := make(chan string, 8)
	for i := range cap(ids) {
		go func() {
			id, err := r.FilesAt(t.Context(), fmt.Sprint("directory ", i))
			if err != nil {
				t.Error(err)
			}
			ids <- id
		}()
	}
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first || id == "" {
			t.Errorf("%q and %q", first, id)
		}
	}
	if id, err := r.FilesAt(t.Context(), "another"); id != first || err != nil {
		t.Errorf("%q %v, want %q", id, err, first)
	}
}
