package desk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/files/objects/s3test"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/internal/testkit"
)

// onBucket are two servers with a database and a bucket, a customer at the first, and an agent at the second.
type onBucket struct {
	t        *testing.T
	ctx      context.Context
	nodes    *nodes
	store    *s3test.Server
	one, two *desktest.Web
	visitor  *desktest.Visitor
	customer *desktest.Client
	agent    *desktest.Client
	conv     string
}

func newOnBucket(t *testing.T) *onBucket {
	t.Helper()
	o := &onBucket{t: t, ctx: testkit.Context(t), store: s3test.Start(t), visitor: new(desktest.Visitor)}
	url, _, account := moved(t)
	env := append(keysOf(), "EDDY_DESK_FILES="+o.store.Bucket(t, "desk"))
	o.nodes = (&nodes{t: t, args: []string{"--store", url}, env: env}).startAll(2)
	o.one, o.two = o.nodes.at(0), o.nodes.at(1)
	o.customer, o.agent = o.one.CustomerBy("demo", o.visitor), o.two.Agent(account[1], account[2])
	t.Cleanup(func() {
		o.customer.Close()
		o.agent.Close()
		o.one.CloseIdle()
		o.two.CloseIdle()
	})
	if err := o.agent.Connected(o.ctx); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.conv, err = o.customer.Open(o.ctx, "human"); err != nil {
		t.Fatal(err)
	}
	return o
}

func keysOf() (env []string) {
	for name, value := range s3test.Keys() {
		env = append(env, name+"="+value)
	}
	return env
}

// upload uploads for the customer.
func (o *onBucket) upload(content []byte) (proto.File, error) {
	return o.one.Upload(o.ctx, o.visitor.Token(), o.conv, "note.txt", bytes.NewReader(content), int64(len(content)))
}

// get fetches a file from one of the servers.
func (o *onBucket) get(from *desktest.Web, path string, header http.Header) (*http.Response, []byte) {
	o.t.Helper()
	resp, got, err := from.Get(o.ctx, path, header)
	if err != nil {
		o.t.Fatal(err)
	}
	return resp, got
}

// TestNodesShareABucket is a day with two servers and a bucket: a file of several parts and a small one, sent to one server and fetched from each, by the
// same addresses; the customer is erased, and the objects with them.
func TestNodesShareABucket(t *testing.T) {
	t.Parallel()
	o := newOnBucket(t)
	large := bytes.Repeat([]byte("a line of a long text\n"), 450_000) // more than a part
	for _, content := range [][]byte{large, []byte("a note")} {
		f, err := o.upload(content)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.customer.SendFiles(o.ctx, o.conv, "", f.ID); err != nil {
			t.Fatal(err)
		}
		for _, by := range []*desktest.Client{o.customer, o.agent} { // at different servers
			links, err := by.Links(o.ctx, f.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, from := range []*desktest.Web{o.one, o.two} {
				if resp, got := o.get(from, links.Links[f.ID], nil); resp.StatusCode != http.StatusOK || !bytes.Equal(got, content) {
					t.Errorf("%d with %d bytes", resp.StatusCode, len(got))
				}
				if resp, got := o.get(from, links.Links[f.ID], http.Header{"Range": {"bytes=2-5"}}); resp.StatusCode != http.StatusPartialContent || !bytes.Equal(got, content[2:6]) {
					t.Errorf("a part: %d with %q", resp.StatusCode, got)
				}
				if resp, got := o.get(from, links.Links[f.ID], http.Header{"Range": {"bytes=0-1,3-4"}}); resp.StatusCode != http.StatusOK || !bytes.Equal(got, content) {
					t.Errorf("two parts: %d with %d bytes", resp.StatusCode, len(got))
				}
			}
		}
	}
	if objects := o.store.Objects(t, "desk"); len(objects) != 3 || o.store.Unfinished(t, "desk") != 0 { // one is the id
		t.Errorf("%q, unfinished %d", objects, o.store.Unfinished(t, "desk"))
	}
	contact := o.customer.Me().ID
	if resp, archive := o.get(o.two, "/api/v1/agent/contacts/"+contact+"/export", nil); resp.StatusCode != http.StatusOK || !bytes.Contains(archive, large) {
		t.Errorf("export: %d with %d bytes", resp.StatusCode, len(archive))
	}
	if reply, err := o.agent.Do(o.ctx, "contact.erase", "", proto.ContactErase{Contact: contact}); err != nil || reply.T != "ok" {
		t.Fatalf("%+v, %v", reply, err)
	}
	testkit.Eventually(t, "the objects of the erased customer to be gone", func() bool { return len(o.store.Objects(t, "desk")) == 1 })
	for i := range 2 {
		o.nodes.end(i).Stop()
	}
}

// TestBucketIsAway cuts the object store off. Messages go on, the servers stay ready and say why, and files are refused as *try again*.
func TestBucketIsAway(t *testing.T) {
	t.Parallel()
	o := newOnBucket(t)
	f, err := o.upload([]byte("a note"))
	if err != nil {
		t.Fatal(err)
	}
	links, err := o.customer.Links(o.ctx, f.ID)
	if err != nil {
		t.Fatal(err)
	}
	path := links.Links[f.ID]
	large, err := o.upload(bytes.Repeat([]byte("x"), 19<<20)) // more than all sockets on the way hold
	if err != nil {
		t.Fatal(err)
	}
	if links, err = o.customer.Links(o.ctx, large.ID); err != nil {
		t.Fatal(err)
	}
	begun, err := http.Get("http://" + o.nodes.all[0].Addr + links.Links[large.ID])
	if err != nil {
		t.Fatal(err)
	}
	defer begun.Body.Close()
	if _, err := io.ReadFull(begun.Body, make([]byte, 1000)); err != nil || begun.StatusCode != http.StatusOK {
		t.Fatal(begun.Status, err)
	}
	o.store.Down(true)
	if n, err := io.Copy(io.Discard, begun.Body); err == nil {
		t.Errorf("a download that broke off after %d bytes looks complete", n)
	}
	for range 3 {
		_, err := o.upload([]byte("a note"))
		if r, ok := errors.AsType[*desktest.Refused](err); !ok || r.Status != http.StatusServiceUnavailable || r.Problem.RetryMS == 0 {
			t.Errorf("upload: %v", err)
		}
		if resp, got := o.get(o.one, path, nil); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("download: %d with %q", resp.StatusCode, got)
		}
	}
	if resp, said := o.get(o.one, "/readyz", nil); resp.StatusCode != http.StatusOK || !strings.Contains(string(said), "bucket s3://desk at "+o.store.Endpoint) {
		t.Errorf("ready: %d with %q", resp.StatusCode, said)
	}
	o.customer.Send(o.conv, "is anybody there?")
	if _, err := o.agent.Event(o.ctx, o.conv, func(f desktest.Frame) bool { return bodyOf(f) == "is anybody there?" }); err != nil {
		t.Fatal(err)
	}
	log := o.nodes.all[0].Errs.String()
	if n := strings.Count(log, "the object store fails"); n == 0 || n > 4 {
		t.Errorf("%d lines in the log: %s", n, log)
	}
	if strings.Contains(log, s3test.Secret) {
		t.Errorf("the log has the key: %s", log)
	}
	o.store.Down(false)
	if _, err := o.upload([]byte("a note")); err != nil {
		t.Error(err)
	}
	if resp, got := o.get(o.one, path, nil); resp.StatusCode != http.StatusOK || string(got) != "a note" {
		t.Errorf("download: %d with %q", resp.StatusCode, got)
	}
	if resp, said := o.get(o.one, "/readyz", nil); resp.StatusCode != http.StatusOK || strings.Contains(string(said), "bucket") {
		t.Errorf("ready: %d with %q", resp.StatusCode, said)
	}
	for i := range 2 {
		o.nodes.end(i).Stop()
	}
}

// TestFilesMoveToABucket copies the directory of a desk into a bucket as tools do, file by file, and goes on there. Another bucket, and a
// bucket without a key, are refused.
func TestFilesMoveToABucket(t *testing.T) {
	t.Parallel()
	store := s3test.Start(t)
	url, data, _ := moved(t)
	dir := filepath.Join(data, "files")
	p := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data, "--store", url)
	p.WaitOutput(p.Out, regexp.MustCompile(`/console\n`))
	p.Stop()
	address, other := store.Bucket(t, "desk"), store.Bucket(t, "other")
	id, err := os.ReadFile(filepath.Join(dir, "directory-id"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(store.Root, "desk", "directory-id"), id, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(files string, env ...string) *cmdtest.Process {
		cmd := cmdtest.Program("desk", "--addr", "127.0.0.1:0", "--data", data, "--store", url, "--files", files)
		cmd.Env = append(cmd.Env, append(keysOf(), env...)...)
		return cmdtest.StartCommand(t, cmd)
	}
	there := run(address)
	there.WaitOutput(there.Out, regexp.MustCompile(`/console\n`))
	there.Stop()
	for name, c := range map[string]struct {
		files string
		env   string
		want  []string
	}{
		"another bucket": {other, "", []string{"another place than bucket s3://other at " + store.Endpoint, "--files"}},
		"no bucket":      {strings.Replace(address, "desk", "none", 1), "", []string{"s3://none at " + store.Endpoint, "no such bucket"}},
		"wrong key":      {address, "AWS_SECRET_ACCESS_KEY=wrong", []string{"s3://desk at " + store.Endpoint, "the key is wrong"}},
		"no key":         {address, "AWS_ACCESS_KEY_ID=", []string{"no key for s3://desk", "AWS_ACCESS_KEY_ID"}},
		"nobody there":   {"s3://desk?endpoint=http://127.0.0.1:1", "", []string{"http://127.0.0.1:1", "connection refused"}},
		"a key in it":    {"s3://me:swordfish@desk", "", []string{"--files", "AWS_ACCESS_KEY_ID"}},
		"another scheme": {"gs://desk", "", []string{"--files", "s3://BUCKET"}},
	} {
		p := run(c.files, c.env)
		if code := p.Wait(); code != 1 {
			t.Errorf("%s: exit code %d", name, code)
		}
		said := p.Errs.String()
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q does not say %q", name, said, want)
			}
		}
		if strings.Contains(said, s3test.Secret) || strings.Contains(said, "swordfish") {
			t.Errorf("%s: %q has a key", name, said)
		}
	}
}
