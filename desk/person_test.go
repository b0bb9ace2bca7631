package desk

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// archive fetches everything that is stored about a contact, by name.
func (s *served) archive(contact string) map[string]string {
	s.t.Helper()
	resp, body, err := s.web.Get(s.ctx, "/api/v1/agent/contacts/"+contact+"/export", nil)
	s.ok(err)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/zip" || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment;") {
		s.t.Fatalf("export: %s %v %.200s", resp.Status, resp.Header, body)
	}
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	s.ok(err)
	all := make(map[string]string)
	for _, f := range z.File {
		r, err := f.Open()
		s.ok(err)
		content, err := io.ReadAll(r)
		s.ok(err)
		all[f.Name] = string(content)
	}
	return all
}

// A person's data are handed out in one archive, and gone after they were erased, with the files. Others keep theirs.
func TestPersonIsExportedAndErased(t *testing.T) {
	s := serve(t, fileOptions(t))
	c := newChat(s).take()
	contact := c.ann.Me().ID
	for i := range 250 { // more than one page
		c.ann.Send(c.conv, fmt.Sprint("line ", i))
	}
	s.ok(c.ann.Flushed(s.ctx))
	f := c.upload("../my notes.txt", []byte("swordfish"))
	_, err := c.ann.SendFiles(s.ctx, c.conv, "", f.ID)
	s.ok(err)
	if reply, err := c.agent.Do(s.ctx, "note.send", c.conv, proto.Note{ClientID: uuid.NewString(), Body: "a note of staff"}); err != nil || reply.T != "ok" {
		t.Fatal(reply, err)
	}
	s.ok(c.ann.Tell(s.ctx, "visit", "", proto.Visit{Page: "https://shop.example/cart?order=7", Title: "Your cart"}))
	testkit.Eventually(t, "the visit to be stored", func() bool {
		f, _, err := s.desk.store.Cold().Visits(s.ctx, contact)
		return err == nil && f.Page == "https://shop.example/cart"
	})
	s.ok(s.desk.store.CreateOwnField(s.ctx, store.OwnField{Key: "plan", Label: "Plan", Kind: store.FieldText, See: store.FieldAdmins, Edit: store.FieldPrograms}))
	_, err = s.desk.store.PatchContact(s.ctx, store.ContactPatch{Contact: contact, Fields: map[string]string{"plan": "gold"}})
	s.ok(err)
	all := s.archive(contact)
	var chat struct {
		Conversation struct{ ID, State string }
		Events       []struct {
			Seq        uint64
			Kind, Text string
		}
	}
	s.ok(json.Unmarshal([]byte(all["chats/"+c.conv+".json"]), &chat))
	said := make(map[string]bool)
	for i, e := range chat.Events {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has number %d", i, e.Seq)
		}
		said[e.Text] = true
	}
	if !said["line 0"] || !said["line 249"] || !said["a note of staff"] || chat.Conversation.ID != c.conv {
		t.Errorf("%d events, conversation %+v", len(chat.Events), chat.Conversation)
	}
	if got := all["files/"+f.ID+"/my notes.txt"]; got != "swordfish" {
		t.Errorf("the file: %q", got)
	}
	if got := all["contact.json"]; !strings.Contains(got, `"visit":{"page":"https://shop.example/cart"`) {
		t.Errorf("the visit: %s", got)
	}
	if got := all["contact.json"]; !strings.Contains(got, contact) || !strings.Contains(got, `"site":"demo"`) {
		t.Errorf("the contact: %s", got)
	}
	if got := all["contact.json"]; !strings.Contains(got, `"fields":{"plan":"gold"}`) {
		t.Errorf("the own fields: %s", got)
	}
	if len(all) != 3 {
		t.Errorf("%d entries", len(all))
	}
	ben := newChat(s)
	a, err := s.desk.store.Cold().Attachments(s.ctx, []string{f.ID})
	s.ok(err)
	if reply, err := c.agent.Do(s.ctx, "contact.erase", "", proto.ContactErase{Contact: contact}); err != nil || reply.T != "ok" {
		t.Fatal(reply, err)
	}
	testkit.Eventually(t, "the chat to be gone", func() bool {
		_, err := s.desk.store.Cold().Conversation(s.ctx, c.conv)
		content, fileErr := s.desk.files.Open(t.Context(), a[0].Storage)
		if fileErr == nil {
			_ = content.Close()
		}
		return errors.Is(err, store.ErrNotFound) && fileErr != nil
	})
	if resp, body, err := s.web.Get(s.ctx, "/api/v1/agent/contacts/"+contact+"/export", nil); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("exported again: %s %s %v", resp.Status, body, err)
	}
	if others := s.archive(ben.ann.Me().ID); others["chats/"+ben.conv+".json"] == "" {
		t.Errorf("the other customer: %v", others)
	}
	for action, want := range map[string]int{store.AuditExport: 2, store.AuditErase: 1} {
		if rows, err := s.desk.store.Cold().Audit(s.ctx, store.AuditQuery{Action: action}); err != nil || len(rows) != want {
			t.Errorf("%s in the audit log: %+v %v", action, rows, err)
		}
	}
}
