package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

func picture(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// chat is a conversation between a visitor and an agent on a running Desk.
type chat struct {
	*served
	visitor *desktest.Visitor
	ann     *desktest.Client
	agent   *desktest.Client // nil until taken
	conv    string
}

func fileOptions(t *testing.T) Options {
	o := testOptions(t)
	o.Uploads.MinFree = -1 // the tests' disk is not what is tested
	o.Uploads.Pace, o.Uploads.MaxTime = testkit.Patience, testkit.Patience
	return o
}

func newChat(s *served) *chat { s.t.Helper(); return newChatWith(s, "human") }

func newChatWith(s *served, wants string) *chat {
	s.t.Helper()
	c := &chat{served: s, visitor: new(desktest.Visitor)}
	c.ann = s.web.CustomerBy("demo", c.visitor)
	s.t.Cleanup(c.ann.Close)
	var err error
	c.conv, err = c.ann.Open(s.ctx, wants)
	s.ok(err)
	return c
}

func (c *chat) take() *chat {
	c.t.Helper()
	c.agent = c.web.Agent("agent", c.pass)
	c.t.Cleanup(c.agent.Close)
	c.ok(c.agent.Take(c.ctx, c.conv))
	return c
}

// upload uploads for the visitor.
func (c *chat) upload(name string, data []byte) proto.File {
	c.t.Helper()
	f, err := c.web.Upload(c.ctx, c.visitor.Token(), c.conv, name, bytes.NewReader(data), int64(len(data)))
	c.ok(err)
	return f
}

// refused uploads for the visitor what is not taken.
func (c *chat) refused(name string, body io.Reader, size int64) int {
	c.t.Helper()
	_, err := c.web.Upload(c.ctx, c.visitor.Token(), c.conv, name, body, size)
	return c.status(err)
}

func (c *chat) status(err error) int {
	c.t.Helper()
	var r *desktest.Refused
	if !errors.As(err, &r) {
		c.t.Fatalf("not refused: %v", err)
	}
	if r.Problem.Code == "" || r.Problem.Text == "" {
		c.t.Errorf("%d says nothing: %+v", r.Status, r.Problem)
	}
	return r.Status
}

func (c *chat) link(by *desktest.Client, id string) string {
	c.t.Helper()
	l, err := by.Links(c.ctx, id)
	c.ok(err)
	return l.Links[id]
}

// stored returns the names of everything below the directory of files.
func (s *served) stored() (names []string) {
	s.t.Helper()
	err := filepath.WalkDir(datadir.Files(s.o.DataDir), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, d.Name())
		}
		return err
	})
	s.ok(err)
	return names
}

func filesOf(f desktest.Frame) []proto.File {
	var m proto.Msg
	f.Decode(&m)
	return m.Files
}

// fetch gets an address without any cookie.
func (c *chat) fetch(path string, header http.Header) (*http.Response, []byte) {
	c.t.Helper()
	resp, data, err := c.newWeb().Get(c.ctx, path, header)
	c.ok(err)
	return resp, data
}

func TestFilesGoBothWays(t *testing.T) {
	c := newChat(serve(t, fileOptions(t))).take()
	data := picture(t, 40, 30)
	f := c.upload("../my photo.jpg", data)
	if f.ID == "" || f.Name != "my photo.jpg.png" || f.Type != "image/png" || f.Size != int64(len(data)) || f.W != 40 || f.H != 30 || f.State != store.FileReady {
		t.Fatalf("%+v", f)
	}
	ack, err := c.ann.SendFiles(c.ctx, c.conv, "look", f.ID)
	c.ok(err)
	for who, client := range map[string]*desktest.Client{"ann": c.ann, "agent": c.agent} {
		got, err := client.Event(c.ctx, c.conv, func(f desktest.Frame) bool { return f.T == "ev.msg" && len(filesOf(f)) > 0 })
		c.ok(err)
		if files := filesOf(got); len(files) != 1 || files[0] != f || got.S != ack.S {
			t.Errorf("%s: %+v with s %d, want %+v with s %d", who, files, got.S, f, ack.S)
		}
		path := c.link(client, f.ID)
		resp, body := c.fetch(path, nil)
		if resp.StatusCode != 200 || !bytes.Equal(body, data) {
			t.Fatalf("%s: %d with %d bytes", who, resp.StatusCode, len(body))
		}
		checkFileHeader(t, resp.Header, "image/png", `inline; filename="my photo.jpg.png"`)
		part, body := c.fetch(path, http.Header{"Range": {"bytes=8-15"}})
		if part.StatusCode != 206 || !bytes.Equal(body, data[8:16]) {
			t.Errorf("%s: part: %d, %q", who, part.StatusCode, body)
		}
		checkFileHeader(t, part.Header, "image/png", `inline; filename="my photo.jpg.png"`)
		if same, _ := c.fetch(path, http.Header{"If-None-Match": {resp.Header.Get("ETag")}}); same.StatusCode != 304 {
			t.Errorf("%s: the same again: %d", who, same.StatusCode)
		}
	}
	note := []byte("für dich\n")
	reply, err := c.web.Upload(c.ctx, "", c.conv, "Notiz für dich.txt", bytes.NewReader(note), -1)
	c.ok(err)
	_, err = c.agent.SendFiles(c.ctx, c.conv, "", reply.ID)
	c.ok(err)
	_, err = c.ann.Event(c.ctx, c.conv, func(f desktest.Frame) bool {
		return f.T == "ev.msg" && len(filesOf(f)) > 0 && filesOf(f)[0].ID == reply.ID
	})
	c.ok(err)
	resp, body := c.fetch(c.link(c.ann, reply.ID), nil)
	if resp.StatusCode != 200 || !bytes.Equal(body, note) {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	checkFileHeader(t, resp.Header, "application/octet-stream", "attachment; filename*=utf-8''Notiz%20f%C3%BCr%20dich.txt")
	if st := c.desk.Stats(); st.Uploads != 2 || st.FilesSent != 7 || st.UploadsRefused != 0 {
		t.Errorf("%+v", st)
	}
}

func checkFileHeader(t *testing.T, h http.Header, mediaType, disposition string) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Type": mediaType, "Content-Disposition": disposition, "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
		"Content-Security-Policy": "default-src 'none'; sandbox; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", "Cache-Control": "private, max-age=600, immutable", "Referrer-Policy": "no-referrer",
	} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// What a browser would run is not taken, whatever it is called; what only looks like it is handed out so that nothing runs.
func TestActiveContent(t *testing.T) {
	c := newChat(serve(t, fileOptions(t)))
	for name, content := range map[string]string{
		"photo.png":  "<!DOCTYPE html><script>alert(1)</script>",
		"photo.gif":  "\ufeff \n<html><body onload=alert(1)>",
		"photo.svg":  `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`,
		"photo.jpg":  `<?xml version="1.0"?><svg/>`,
		"photo.webp": "MZ\x90\x00",
		"photo.bmp":  "\x00\x01\x02\x03",
	} {
		if got := c.refused(name, strings.NewReader(content), int64(len(content))); got != 415 {
			t.Errorf("%s: %d", name, got)
		}
	}
	if left := c.stored(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	polyglot := c.upload("page.html", []byte("GIF89a\x10\x00\x10\x00\x00\x00\x00/*<script>alert(1)</script>*/=1"))
	lying := c.upload("page.html", []byte("hello <script>alert(1)</script>"))
	_, err := c.ann.SendFiles(c.ctx, c.conv, "", polyglot.ID, lying.ID)
	c.ok(err)
	resp, _ := c.fetch(c.link(c.ann, polyglot.ID), nil)
	checkFileHeader(t, resp.Header, "image/gif", "inline; filename=page.html.gif")
	resp, _ = c.fetch(c.link(c.ann, lying.ID), nil)
	checkFileHeader(t, resp.Header, "application/octet-stream", "attachment; filename=page.html.txt")
}

func TestUploadsAreAuthorised(t *testing.T) {
	s := serve(t, fileOptions(t))
	c, ben := newChat(s).take(), newChat(s)
	s.ok(s.desk.AddAgent(s.ctx, "moe", "Moe", "moe's password", 5))
	moe, nobody := s.newWeb(), s.newWeb()
	s.ok(moe.Post(s.ctx, "/api/v1/agent/login", map[string]string{"login": "moe", "password": "moe's password"}, nil))
	for name, x := range map[string]struct {
		web         *desktest.Web
		token, conv string
		want        int
	}{
		"unknown token":             {s.web, "no such token", c.conv, 401},
		"another's conversation":    {s.web, ben.visitor.Token(), c.conv, 404},
		"no conversation":           {s.web, ben.visitor.Token(), "", 404},
		"unknown conversation":      {s.web, ben.visitor.Token(), "0190a6f4-0000-7000-8000-000000000001", 404},
		"nobody":                    {nobody, "", c.conv, 401},
		"another agent's":           {moe, "", c.conv, 403},
		"agent, unknown":            {moe, "", "nope", 404},
		"visitor's token as cookie": {nobody, "", ben.conv, 401},
	} {
		_, err := x.web.Upload(s.ctx, x.token, x.conv, "x.txt", strings.NewReader("text"), 4)
		if got := c.status(err); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
	if _, err := moe.Upload(s.ctx, "", newChatWith(s, "bot").conv, "x.txt", strings.NewReader("text"), 4); err != nil {
		t.Errorf("into a conversation of nobody: %v", err)
	}
	const uploads = "/api/v1/widget/uploads"
	for _, x := range []struct {
		method, path string
		want         int
	}{
		{"POST", uploads, 401}, {"GET", uploads, 405}, {"PUT", "/api/v1/agent/uploads", 405},
	} {
		if code, _ := call(s.desk, x.method, x.path, ""); code != x.want {
			t.Errorf("%s %s: %d, want %d", x.method, x.path, code, x.want)
		}
	}
	req, err := http.NewRequestWithContext(s.ctx, "POST", s.base.Load().(string)+uploads+"?conv="+ben.conv, strings.NewReader("text"))
	s.ok(err)
	req.Header.Set("Authorization", "Bearer "+ben.visitor.Token())
	req.Header.Set("Origin", "https://evil.example")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	s.ok(err)
	_ = resp.Body.Close()
	if resp.StatusCode != 403 {
		t.Errorf("from another site: %d", resp.StatusCode)
	}
	if got := len(s.stored()); got != 1 {
		t.Errorf("%d files are stored", got)
	}
}

func TestUploadLimits(t *testing.T) {
	t.Parallel() // it waits for the disk
	text := strings.Repeat("some text\n", 100)
	bytesOf := func(n int) (io.Reader, int64) { return strings.NewReader(text[:n]), int64(n) }
	chunked := func(n int) (io.Reader, int64) { return io.MultiReader(strings.NewReader(text[:n])), -1 }
	type try struct {
		how  func(int) (io.Reader, int64)
		n    int
		want int
	}
	for name, x := range map[string]struct {
		limits front.Uploads
		tries  []try
	}{
		"size":            {front.Uploads{MaxSize: 500}, []try{{bytesOf, 501, 413}, {chunked, 501, 413}, {bytesOf, 500, 201}, {chunked, 500, 201}}},
		"nothing":         {front.Uploads{}, []try{{chunked, 0, 400}}},
		"bytes per hour":  {front.Uploads{VisitorBytes: 700}, []try{{bytesOf, 400, 201}, {bytesOf, 301, 429}, {chunked, 301, 429}, {bytesOf, 300, 201}, {bytesOf, 1, 429}}},
		"files per hour":  {front.Uploads{VisitorFiles: 2}, []try{{bytesOf, 4, 201}, {bytesOf, 4, 201}, {bytesOf, 4, 429}}},
		"bytes of a site": {front.Uploads{SiteBytes: 700}, []try{{bytesOf, 400, 201}, {bytesOf, 301, 507}, {bytesOf, 300, 201}, {bytesOf, 1, 507}}},
		"room":            {front.Uploads{MinFree: 1 << 60}, []try{{bytesOf, 4, 507}}},
		"types":           {front.Uploads{Types: []string{"image/png"}}, []try{{bytesOf, 4, 415}}},
		"unsent":          {front.Uploads{}, slices.Concat(slices.Repeat([]try{{bytesOf, 4, 201}}, 30), []try{{bytesOf, 4, 429}})},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t)
			o.Uploads = x.limits
			if o.Uploads.MinFree == 0 {
				o.Uploads.MinFree = -1
			}
			c := newChat(serve(t, o))
			taken := 0
			for i, y := range x.tries {
				body, size := y.how(y.n)
				_, err := c.web.Upload(c.ctx, c.visitor.Token(), c.conv, "x.txt", body, size)
				got := 201
				if err != nil {
					got = c.status(err)
				} else {
					taken++
				}
				if got != y.want {
					t.Errorf("file %d of %d bytes: %d, want %d", i, y.n, got, y.want)
				}
			}
			if got := len(c.stored()); got != taken {
				t.Errorf("%d files are stored, %d were taken", got, taken)
			}
		})
	}
	c := newChat(serve(t, fileOptions(t)))
	if got := c.refused(strings.Repeat("x", 1<<10+1), strings.NewReader("x"), 1); got != 400 {
		t.Errorf("a long name: %d", got)
	}
}

// held is a body that stops in the middle until the rest comes or it is closed.
type held struct {
	head io.Reader
	rest chan struct{}
	once sync.Once
	err  error // what it ends with
}

func newHeld(head string) *held {
	return &held{head: strings.NewReader(head), rest: make(chan struct{})}
}

func (h *held) Read(p []byte) (int, error) {
	if n, err := h.head.Read(p); n > 0 || err == nil {
		return n, nil
	}
	<-h.rest
	return 0, h.err
}

// Close lets the end come.
func (h *held) Close() error {
	h.end(io.EOF)
	return nil
}

func (h *held) end(err error) {
	h.once.Do(func() {
		h.err = err
		close(h.rest)
	})
}

func TestOneUploadOfAVisitorAtATime(t *testing.T) {
	c := newChat(serve(t, fileOptions(t)))
	begin := func(ctx context.Context) (*held, chan error) {
		body, done := newHeld(strings.Repeat("text", 4<<10)), make(chan error, 1)
		go func() {
			_, err := c.web.Upload(ctx, c.visitor.Token(), c.conv, "x.txt", body, -1)
			done <- err
		}()
		testkit.Eventually(t, "an upload in the middle", func() bool { return len(c.stored()) > 0 })
		return body, done
	}
	body, done := begin(c.ctx)
	if got := c.refused("y.txt", strings.NewReader("text"), 4); got != 429 {
		t.Errorf("the second: %d", got)
	}
	c.ok(body.Close())
	c.ok(<-done)
	before := c.stored()

	// One that is cancelled leaves nothing, and its place is free.
	ctx, cancel := context.WithCancel(c.ctx)
	done = make(chan error, 1)
	body = newHeld(strings.Repeat("text", 4<<10))
	go func() {
		_, err := c.web.Upload(ctx, c.visitor.Token(), c.conv, "x.txt", body, -1)
		done <- err
	}()
	testkit.Eventually(t, "an upload in the middle", func() bool { return len(c.stored()) > len(before) })
	cancel()
	body.end(context.Canceled) // a cancelled request waits for its body
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	testkit.Eventually(t, "nothing left of it", func() bool { return slices.Equal(c.stored(), before) })
	testkit.Eventually(t, "its place", func() bool {
		_, err := c.web.Upload(c.ctx, c.visitor.Token(), c.conv, "x.txt", strings.NewReader("text"), 4)
		return err == nil
	})
}

func TestDripFedUploads(t *testing.T) {
	for name, x := range map[string]front.Uploads{"pace": {Pace: 100 * time.Millisecond}, "time in all": {MaxTime: 100 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for time limits
			o := testOptions(t)
			o.Uploads = x
			o.Uploads.MinFree = -1
			c := newChat(serve(t, o))
			body := newHeld(strings.Repeat("text", 2<<10))
			defer func() { _ = body.Close() }()
			if got := c.refused("x.txt", body, 1<<20); got != 408 {
				t.Errorf("%d", got)
			}
			if left := c.stored(); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// visitorWithChat makes a visitor who has a conversation and no connection.
func (s *served) visitorWithChat() (token, conv string) {
	s.t.Helper()
	site, err := s.desk.store.Cold().SiteByKey(s.ctx, "demo")
	s.ok(err)
	token, hash := auth.NewToken()
	visitor, err := s.desk.store.CreateVisitor(s.ctx, site, hash, time.Now().Add(time.Hour))
	s.ok(err)
	opened := make(chan store.Outcome, 2)
	s.desk.store.Do(store.Open{Contact: visitor}, time.Now().Add(testkit.Patience), func(out store.Outcome) { opened <- out })
	out := testkit.Receive(s.t, "a conversation", opened)
	s.ok(out.Err)
	return token, out.Conv.ID
}

// Fifty uploads at once: the bound holds, and pages and messages go on as if there were none.
func TestUploadsDoNotDisturbTheChat(t *testing.T) {
	const all, places = 50, 16
	s := serve(t, fileOptions(t))
	c := newChat(s).take()
	var done sync.WaitGroup
	var taken, refused atomic.Int64
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	rest := make(chan struct{})
	atOnce := make(chan struct{}, places) // those that were refused, when there is place for them
	for range all {
		token, conv := s.visitorWithChat()
		done.Go(func() {
			web, again := s.newWeb(), false
			for ctx.Err() == nil {
				body := newHeld(strings.Repeat("text", 8<<10))
				go func() {
					<-rest
					_ = body.Close()
				}()
				_, err := web.Upload(ctx, token, conv, "x.txt", body, -1)
				var r *desktest.Refused
				switch {
				case err == nil:
					taken.Add(1)
					return
				case errors.As(err, &r) && r.Status == 503:
					refused.Add(1)
					if !again {
						again = true
						<-rest
						atOnce <- struct{}{}
						defer func() { <-atOnce }()
					}
				}
			}
		})
	}
	testkit.Eventually(t, "all places taken and all others refused", func() bool {
		return refused.Load() == all-places && len(s.stored()) == places
	})
	for _, page := range []string{"/chat/demo", "/console", "/readyz"} {
		if resp, _ := c.fetch(page, nil); resp.StatusCode != 200 {
			t.Errorf("%s: %d", page, resp.StatusCode)
		}
	}
	for i := range 50 {
		c.ann.Send(c.conv, fmt.Sprint("message ", i))
		s.ok(c.ann.Flushed(s.ctx))
	}
	if _, err := s.web.Upload(s.ctx, "", c.conv, "x.txt", strings.NewReader("text"), 4); err != nil {
		t.Errorf("an upload of staff: %v", err)
	}
	if n := taken.Load(); n != 0 {
		t.Errorf("%d uploads ended before their end", n)
	}
	close(rest)
	done.Wait()
	if n := taken.Load(); n != all {
		t.Errorf("%d of %d uploads were taken in the end", n, all)
	}
}

func TestFilesOfOthers(t *testing.T) {
	s := serve(t, fileOptions(t))
	c, ben := newChat(s).take(), newChat(s)
	sent, loose := c.upload("sent.txt", []byte("text")), c.upload("loose.txt", []byte("text"))
	_, err := c.ann.SendFiles(s.ctx, c.conv, "", sent.ID)
	s.ok(err)
	staff := func(name string) proto.File {
		f, err := s.web.Upload(s.ctx, "", c.conv, name, strings.NewReader("text"), 4)
		s.ok(err)
		return f
	}
	noted, draft := staff("noted.txt"), staff("draft.txt")
	reply, err := c.agent.Do(s.ctx, "note.send", c.conv, proto.Note{ClientID: "0190a6f4-0000-7000-8000-000000000009", Attachments: []string{noted.ID}})
	if err != nil || reply.T != "ok" {
		t.Fatal(reply, err)
	}
	ids := []string{sent.ID, loose.ID, noted.ID, draft.ID, "no such file"}
	for name, x := range map[string]struct {
		client *desktest.Client
		want   []string
	}{
		"the visitor": {c.ann, []string{sent.ID, loose.ID}}, "another visitor": {ben.ann, nil}, "the agent": {c.agent, []string{sent.ID, noted.ID, draft.ID}},
	} {
		l, err := x.client.Links(s.ctx, ids...)
		s.ok(err)
		for _, id := range ids {
			if got, want := l.Links[id] != "", slices.Contains(x.want, id); got != want {
				t.Errorf("%s, file %d: %v, want %v", name, slices.Index(ids, id), got, want)
			}
		}
		if len(l.States) != 0 || l.ExpiresMS < 60_000 && len(x.want) > 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
	for name, x := range map[string]struct {
		client *desktest.Client
		conv   string
		id     string
	}{
		"another's file":       {ben.ann, ben.conv, loose.ID},
		"into another's chat":  {c.ann, ben.conv, loose.ID},
		"sent already":         {c.ann, c.conv, sent.ID},
		"the customer's":       {c.agent, c.conv, loose.ID},
		"of staff, by another": {c.ann, c.conv, draft.ID},
		"unknown":              {c.ann, c.conv, "nope"},
	} {
		var e *proto.Error
		if _, err := x.client.SendFiles(s.ctx, x.conv, name, x.id); !errors.As(err, &e) || e.Code != proto.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, f := range c.ann.View(c.conv) {
		if f.T == "ev.msg" && slices.ContainsFunc(filesOf(f), func(f proto.File) bool { return f.ID == noted.ID }) {
			t.Errorf("the customer was told of the file of a note: %s", f.D)
		}
	}
}

func TestAddressesOfFiles(t *testing.T) {
	o := fileOptions(t)
	var ahead atomic.Int64
	o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	c := newChat(serve(t, o))
	f, g := c.upload("f.txt", []byte("text")), c.upload("g.txt", []byte("text"))
	path := c.link(c.ann, f.ID)
	_, params, _ := strings.Cut(path, "?")
	for name, x := range map[string]struct {
		path string
		want int
	}{
		"as given":             {path, 200},
		"another file":         {"/files/" + g.ID + "?" + params, 403},
		"no parameters":        {"/files/" + f.ID, 403},
		"altered":              {path[:len(path)-2] + "xx", 403},
		"longer life":          {strings.Replace(path, "?e=", "?e=1", 1), 403},
		"as staff":             {strings.Replace(path, "&s=c", "&s=a", 1), 403},
		"twice":                {strings.Replace(path, "?e=", "?e=9999999999&e=", 1), 403},
		"out of the directory": {"/files/..%2f..%2fdesk.db?" + params, 403},
		"the directory":        {"/files/?" + params, 404},
	} {
		if resp, body := c.fetch(x.path, nil); resp.StatusCode != x.want {
			t.Errorf("%s: %d %s, want %d", name, resp.StatusCode, body, x.want)
		}
	}
	ahead.Store(int64(20 * time.Minute))
	if resp, _ := c.fetch(path, nil); resp.StatusCode != 410 {
		t.Errorf("too old: %d", resp.StatusCode)
	}
	again := c.link(c.ann, f.ID)
	for range 10 { // more than may be sent at once: each gives its place back
		testkit.Eventually(t, "the file asked for anew", func() bool { resp, _ := c.fetch(again, nil); return resp.StatusCode == 200 })
	}
}

// scripted is a scanner that decides when it is told to.
type scripted struct {
	asked  chan string
	answer chan any // bool or error
}

func (s *scripted) Scan(ctx context.Context, path string, a store.Attachment) (bool, error) {
	select {
	case s.asked <- a.Name:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	select {
	case x := <-s.answer:
		if err, ok := x.(error); ok {
			return false, err
		}
		return x.(bool), nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func TestScannedFiles(t *testing.T) {
	o := fileOptions(t)
	scanner := &scripted{make(chan string), make(chan any)}
	o.Uploads.Scanner = scanner
	c := newChat(serve(t, o)).take()
	good, bad := c.upload("good.txt", []byte("text")), c.upload("bad.txt", []byte("text"))
	if good.State != store.FileChecking {
		t.Fatalf("%+v", good)
	}
	_, err := c.ann.SendFiles(c.ctx, c.conv, "", good.ID, bad.ID) // acknowledged while the scanner has not decided
	c.ok(err)
	path := func(id string) string { p, _ := c.desk.links.Link(id, store.CustomerSide); return p }
	for _, by := range []*desktest.Client{c.ann, c.agent} {
		l, err := by.Links(c.ctx, good.ID, bad.ID)
		if err != nil || len(l.Links) != 0 || l.States[good.ID] != store.FileChecking {
			t.Fatalf("%+v %v", l, err)
		}
	}
	if resp, _ := c.fetch(path(good.ID), nil); resp.StatusCode != 404 {
		t.Errorf("fetched before the decision: %d", resp.StatusCode)
	}
	for range 2 {
		scanner.answer <- map[string]bool{"good.txt": true, "bad.txt": false}[<-scanner.asked]
	}
	for id, want := range map[string]string{good.ID: store.FileReady, bad.ID: store.FileRefused} {
		for _, by := range []*desktest.Client{c.ann, c.agent} {
			_, err := by.Other(c.ctx, func(f desktest.Frame) bool {
				var x proto.File
				return f.T == "ev.file" && f.C == c.conv && json.Unmarshal(f.D, &x) == nil && x.ID == id && x.State == want
			})
			c.ok(err)
		}
	}
	l, err := c.agent.Links(c.ctx, good.ID, bad.ID)
	if err != nil || l.Links[good.ID] == "" || l.Links[bad.ID] != "" || l.States[bad.ID] != store.FileRefused {
		t.Errorf("%+v %v", l, err)
	}
	if resp, _ := c.fetch(path(good.ID), nil); resp.StatusCode != 200 {
		t.Errorf("the good one: %d", resp.StatusCode)
	}
	if resp, _ := c.fetch(path(bad.ID), nil); resp.StatusCode != 404 {
		t.Errorf("the refused one: %d", resp.StatusCode)
	}
	testkit.Eventually(t, "the refused file to be removed", func() bool { return len(c.stored()) == 1 })
}

// unsure is a store whose answer to a new file is lost: it was added, or not.
type unsure struct {
	store.Store
	add bool
}

func (u *unsure) AddAttachment(ctx context.Context, a store.Attachment, q store.Quota) (store.Attachment, error) {
	if u.add {
		if _, err := u.Store.AddAttachment(ctx, a, q); err != nil {
			return a, err
		}
	}
	return a, store.ErrUnavailable
}

// When it is not known whether a file has a row, the bytes stay: a row without bytes could be sent.
func TestLostAnswerOfTheStore(t *testing.T) {
	for _, added := range []bool{true, false} {
		o := fileOptions(t)
		o.WrapStore = func(s store.Store) store.Store { return &unsure{s, added} }
		c := newChat(serve(t, o))
		if got := c.refused("x.txt", strings.NewReader("text"), 4); got != 503 {
			t.Errorf("added %v: %d", added, got)
		}
		names := c.stored()
		if len(names) != 1 {
			t.Fatalf("added %v: %v is stored", added, names)
		}
		known, err := c.desk.store.Cold().Stored(c.ctx, names)
		if err != nil || known[names[0]] != added {
			t.Errorf("added %v: %v %v", added, known, err)
		}
	}
}
