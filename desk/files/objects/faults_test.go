package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/files"
)

// large is a file of two parts, small one of one.
var (
	large = strings.Repeat("a line of text\n", files.HeaderBytes/10)
	small = "a note"
)

func receive(t *testing.T, s *files.Store, content string) (files.File, error) {
	t.Helper()
	return s.Receive(t.Context(), strings.NewReader(content), "x.txt", int64(len(content)))
}

// only makes requests of one kind fail.
func only(kind string, fault func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request, string) bool {
	return func(w http.ResponseWriter, r *http.Request, what string) bool {
		if what == kind {
			fault(w, r)
		}
		return what == kind
	}
}

func answering(status int, code string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fail(w, status, code)
	}
}

// cut ends a connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// TestUploadFails: whatever an object store does to an upload, the file is not there, not even in part, and the caller
// knows whether it is worth another try.
func TestUploadFails(t *testing.T) {
	long := strings.Repeat("long\n", 5000)
	for name, c := range map[string]struct {
		content, kind string
		fault         func(http.ResponseWriter, *http.Request)
		want          error
		text          string
		calls         int
	}{
		"not allowed":               {small, "put", answering(http.StatusForbidden, "AccessDenied"), files.ErrUnavailable, "PutObject", 1},
		"another key":               {small, "put", answering(http.StatusForbidden, "SignatureDoesNotMatch"), files.ErrUnavailable, "AWS_SECRET_ACCESS_KEY", 1},
		"no bucket":                 {small, "put", answering(http.StatusNotFound, "NoSuchBucket"), files.ErrUnavailable, "create it", 1},
		"broken":                    {small, "put", answering(http.StatusInternalServerError, "InternalError"), files.ErrUnavailable, "InternalError (500)", 3},
		"busy":                      {small, "put", answering(http.StatusServiceUnavailable, "SlowDown"), files.ErrUnavailable, "SlowDown (503)", 3},
		"broken and unread":         {small, "put", func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusBadGateway, "X") }, files.ErrUnavailable, "storing", 3},
		"cut":                       {small, "put", cut, files.ErrUnavailable, "storing", 3},
		"full":                      {small, "put", answering(http.StatusInsufficientStorage, "X"), files.ErrFull, "", 1},
		"over its quota":            {small, "put", answering(http.StatusForbidden, "QuotaExceeded"), files.ErrFull, "", 1},
		"long":                      {small, "put", func(w http.ResponseWriter, _ *http.Request) { failWith(w, http.StatusBadRequest, "X", long) }, files.ErrUnavailable, "…", 1},
		"large: does not begin":     {large, "begin", answering(http.StatusForbidden, "AccessDenied"), files.ErrUnavailable, "AccessDenied", 1},
		"large: a part":             {large, "part", answering(http.StatusInternalServerError, "X"), files.ErrUnavailable, "X (500)", 3},
		"large: a part is cut":      {large, "part", cut, files.ErrUnavailable, "storing", 3},
		"large: full":               {large, "part", answering(http.StatusInsufficientStorage, "X"), files.ErrFull, "", 1},
		"large: not completed":      {large, "complete", answering(http.StatusBadRequest, "InvalidPart"), files.ErrUnavailable, "InvalidPart", 1},
		"large: 200 with an error":  {large, "complete", answering(http.StatusOK, "InternalError"), files.ErrUnavailable, "InternalError", 1},
		"large: not there at last":  {large, "complete", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, completed) }, files.ErrUnavailable, "cannot be seen", 3},
		"large: complete cut short": {large, "complete", cut, files.ErrUnavailable, "storing", 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			b := f.open()
			s := f.store(b)
			f.failing(only(c.kind, c.fault))
			got, err := receive(t, s, c.content)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 500 {
				t.Errorf("%+v, %v", got, err)
			}
			asked := f.asked()
			if n := len(slices.DeleteFunc(slices.Clone(asked), func(what string) bool { return what != c.kind })); n != c.calls {
				t.Errorf("%d calls of %q, want %d", n, asked, c.calls)
			}
			if objects, parts := f.left(); objects != 0 || parts != 0 {
				t.Errorf("%d objects and %d parts are left after %q", objects, parts, asked)
			}
			answered := c.text != "storing" && c.text != "cannot be seen" // or it is there again, because it has removed what was left
			if fault := b.Fault(); answered && (fault != nil) != errors.Is(c.want, files.ErrUnavailable) {
				t.Errorf("fault %v", fault)
			}
			f.failing(nil)
			if _, err := receive(t, s, c.content); err != nil {
				t.Error(err)
			}
			if err := b.Fault(); err != nil {
				t.Errorf("it works: %v", err)
			}
		})
	}
}

const completed = "<CompleteMultipartUploadResult><Bucket>desk</Bucket><Key>k</Key><ETag>e</ETag></CompleteMultipartUploadResult>"

// TestUploadIsTriedAgain: what fails once or twice is stored all the same, whole.
func TestUploadIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		content, kind string
		fault         func(http.ResponseWriter, *http.Request)
	}{
		"broken":           {small, "put", answering(http.StatusInternalServerError, "InternalError")},
		"cut":              {small, "put", cut},
		"a part is cut":    {large, "part", cut},
		"busy":             {large, "part", answering(http.StatusServiceUnavailable, "SlowDown")},
		"not completed":    {large, "complete", answering(http.StatusInternalServerError, "InternalError")},
		"it did not begin": {large, "begin", cut},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			s := f.store(f.open())
			var times atomic.Int32
			f.failing(func(w http.ResponseWriter, r *http.Request, what string) bool {
				if what != c.kind || times.Add(1) > 2 {
					return false
				}
				c.fault(w, r)
				return true
			})
			got, err := receive(t, s, c.content)
			if err != nil {
				t.Fatal(err)
			}
			if back := read(t, s, got.Storage); back != c.content {
				t.Errorf("%d bytes came back, want %d", len(back), len(c.content))
			}
		})
	}
}

func read(t *testing.T, s *files.Store, name string) string {
	t.Helper()
	in, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(in)
	if err = errors.Join(err, in.Close()); err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestLostAnswer: an upload whose last answer is lost is stored, and is said to be.
func TestLostAnswer(t *testing.T) {
	f := newFake(t)
	s := f.store(f.open())
	f.failing(func(w http.ResponseWriter, r *http.Request, what string) bool {
		if what == "complete" {
			f.mu.Lock()
			f.complete(strings.TrimPrefix(r.URL.Path, "/desk/"))
			f.mu.Unlock()
			cut(w, r)
		}
		return false
	})
	got, err := receive(t, s, large)
	if err != nil {
		t.Fatal(err)
	}
	if back := read(t, s, got.Storage); back != large {
		t.Errorf("%d bytes came back", len(back))
	}
}

// TestWrongLength: an object that is not as long as what was sent is not taken for it.
func TestWrongLength(t *testing.T) {
	f := newFake(t)
	s := f.store(f.open())
	f.failing(func(_ http.ResponseWriter, r *http.Request, what string) bool {
		if what == "complete" {
			f.mu.Lock()
			delete(f.half, 2)
			f.mu.Unlock()
		}
		return false
	})
	if got, err := receive(t, s, large); !errors.Is(err, files.ErrUnavailable) || !strings.Contains(err.Error(), "were sent") {
		t.Errorf("%+v, %v", got, err)
	}
	if objects, parts := f.left(); objects != 0 || parts != 0 {
		t.Errorf("%d objects and %d parts are left", objects, parts)
	}
}

// hang holds requests of a kind until the test ends, or their client has gone.
func hang(t *testing.T, kind string, begun chan<- struct{}) func(http.ResponseWriter, *http.Request, string) bool {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return only(kind, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case begun <- struct{}{}:
		default:
		}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
}

// TestStoreHangs: a call without an answer ends at its limit.
func TestStoreHangs(t *testing.T) {
	for kind, work := range map[string]func(t *testing.T, s *files.Store, b *Bucket, name string) error{
		"put": func(t *testing.T, s *files.Store, _ *Bucket, _ string) error {
			_, err := receive(t, s, small)
			return err
		},
		"head": func(t *testing.T, s *files.Store, _ *Bucket, name string) error {
			_, err := s.Open(t.Context(), name)
			return err
		},
		"delete": func(t *testing.T, s *files.Store, _ *Bucket, name string) error { return s.Remove(t.Context(), name) },
		"list": func(t *testing.T, _ *files.Store, b *Bucket, _ string) error {
			return b.Each(t.Context(), "ab", time.Now(), nil)
		},
		"uploads": func(t *testing.T, _ *files.Store, b *Bucket, _ string) error { return b.Sweep(t.Context(), time.Now()) },
		"get": func(t *testing.T, s *files.Store, _ *Bucket, name string) error {
			in, err := s.Open(t.Context(), name)
			if err == nil {
				_, err = io.ReadAll(in)
				_ = in.Close()
			}
			return err
		},
	} {
		t.Run(kind, func(t *testing.T) {
			f := newFake(t)
			b := f.open()
			s := f.store(b)
			got, err := receive(t, s, small)
			if err != nil {
				t.Fatal(err)
			}
			f.failing(hang(t, kind, nil))
			if kind == "put" {
				b.o.part = brief
			} else {
				b.o.call = brief
			}
			if kind == "get" {
				b.o.call = 20 * brief // the call before has an answer
			}
			if err := work(t, s, b, got.Storage); !errors.Is(err, files.ErrUnavailable) || !strings.Contains(err.Error(), "no answer in time") {
				t.Error(err)
			}
		})
	}
}

// brief is a limit that is to be met.
const brief = 50 * time.Millisecond

// TestClientGoesWhileStoreHangs: an upload that waits for the store ends with its client, and leaves nothing.
func TestClientGoesWhileStoreHangs(t *testing.T) {
	for kind, content := range map[string]string{"put": small, "part": large, "complete": large} {
		t.Run(kind, func(t *testing.T) {
			f := newFake(t)
			b := f.open()
			s := f.store(b)
			begun := make(chan struct{}, 1)
			f.failing(hang(t, kind, begun))
			ctx, end := context.WithCancel(t.Context())
			go func() { <-begun; end() }()
			if got, err := s.Receive(ctx, strings.NewReader(content), "x.txt", -1); !errors.Is(err, context.Canceled) {
				t.Errorf("%+v, %v", got, err)
			}
			asked := f.asked()
			if gone := map[bool]string{true: "delete", false: "abort"}[kind == "put"]; !slices.Contains(asked, gone) {
				t.Errorf("%q, want %s", asked, gone)
			}
			if _, parts := f.left(); parts != 0 {
				t.Errorf("%d parts are left", parts)
			}
			if err := b.Fault(); err != nil {
				t.Errorf("a client that goes is no fault: %v", err)
			}
		})
	}
}

// TestDownloadFails: what cannot be read is told before anything is, and a download that is cut off ends with an error.
func TestDownloadFails(t *testing.T) {
	f := newFake(t)
	b := f.open()
	s := f.store(b)
	got, err := receive(t, s, large)
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]error{
		http.StatusForbidden: files.ErrUnavailable, http.StatusInternalServerError: files.ErrUnavailable, http.StatusServiceUnavailable: files.ErrUnavailable, http.StatusNotFound: fs.ErrNotExist,
	} {
		f.failing(only("head", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		if in, err := s.Open(t.Context(), got.Storage); !errors.Is(err, want) {
			t.Errorf("%d: %v, %v", status, in, err)
		}
	}
	for name, c := range map[string]struct {
		fault func(http.ResponseWriter, *http.Request)
		from  int64
		least int64
		text  string
	}{
		"cut at once": {cut, 0, 0, "connection closed"},
		"cut in the middle": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(large)))
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			_, _ = io.CopyN(w, strings.NewReader(large), 100_000)
			_ = http.NewResponseController(w).Flush()
			cut(w, r)
		}, 0, 50_000, "unexpected EOF"},
		"not allowed": {answering(http.StatusForbidden, "AccessDenied"), 0, 0, "GetObject"},
		"all instead of a part": {func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			http.ServeContent(w, r, "x", time.Now(), strings.NewReader(large))
		}, 1000, 0, "are to come"},
	} {
		f.failing(only("get", c.fault))
		in, err := s.Open(t.Context(), got.Storage)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Seek(c.from, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, in)
		if !errors.Is(err, files.ErrUnavailable) || !strings.Contains(err.Error(), c.text) || n < c.least || n >= int64(len(large)) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		_ = in.Close()
	}
	f.failing(nil)
	if back := read(t, s, got.Storage); back != large {
		t.Errorf("%d bytes came back", len(back))
	}
}

// TestDownloadStalls: a store that stops sending ends a download; a client that does not read does not.
func TestDownloadStalls(t *testing.T) {
	f := newFake(t)
	b := f.open()
	s := f.store(b)
	got, err := receive(t, s, large)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	defer close(over)
	f.failing(only("get", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(large)))
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_, _ = io.WriteString(w, large[:1000])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	in, err := s.Open(t.Context(), got.Storage)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	b.o.call = 20 * brief
	if n, err := io.Copy(io.Discard, in); n != 1000 || !errors.Is(err, files.ErrUnavailable) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestRemoveAndSweepFail: what cannot be removed is said, once; what is gone already, and what the store does not have,
// is no error.
func TestRemoveAndSweepFail(t *testing.T) {
	f := newFake(t)
	b := f.open()
	const name = "00112233445566778899aabbccddeeff"
	f.failing(only("delete", answering(http.StatusForbidden, "AccessDenied")))
	if err := b.Remove(t.Context(), name, name, name); !errors.Is(err, files.ErrUnavailable) || strings.Count(err.Error(), "removing") != 1 {
		t.Error(err)
	}
	f.failing(only("delete", answering(http.StatusNotFound, "NoSuchKey")))
	if err := b.Remove(t.Context(), name); err != nil {
		t.Error(err)
	}
	f.failing(only("uploads", answering(http.StatusNotImplemented, "NotImplemented")))
	if err := b.Sweep(t.Context(), time.Now()); err != nil {
		t.Error(err)
	}
	f.failing(only("list", answering(http.StatusForbidden, "AccessDenied")))
	if err := b.Each(t.Context(), "ab", time.Now(), nil); !errors.Is(err, files.ErrUnavailable) {
		t.Error(err)
	}
}

// TestIDs: two servers that start at once agree, also in a store that knows no conditions.
func TestIDs(t *testing.T) {
	f := newFake(t)
	b := f.open()
	f.failing(func(w http.ResponseWriter, r *http.Request, what string) bool {
		if what == "put" { // another server is a moment earlier
			f.mu.Lock()
			f.has["of/"+files.IDName] = []byte("the other's\n")
			f.mu.Unlock()
		}
		return false
	})
	if id, err := b.ID(t.Context()); id != "the other's" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	f.mu.Lock()
	clear(f.has)
	f.mu.Unlock()
	f.failing(func(w http.ResponseWriter, r *http.Request, what string) bool {
		if r.Header.Get("If-None-Match") != "" {
			fail(w, http.StatusNotImplemented, "NotImplemented")
			return true
		}
		return false
	})
	id, err := b.ID(t.Context())
	if id == "" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	if again, err := b.ID(t.Context()); again != id || err != nil {
		t.Errorf("%q and %q, %v", id, again, err)
	}
	if err := b.Fault(); err != nil {
		t.Errorf("a store without conditions is no fault: %v", err)
	}
	f.failing(only("put", answering(http.StatusForbidden, "AccessDenied")))
	f.mu.Lock()
	clear(f.has)
	f.mu.Unlock()
	if id, err := b.ID(t.Context()); !errors.Is(err, files.ErrUnavailable) {
		t.Errorf("%q, %v", id, err)
	}
}

// TestLogIsBounded: a store that fails is named once a minute for each kind of call, and Fault forgets what is long ago.
func TestLogIsBounded(t *testing.T) {
	f := newFake(t)
	b := f.open()
	now := time.Unix(1_000_000, 0)
	b.o.now = func() time.Time { return now }
	s := f.store(b)
	f.failing(only("put", answering(http.StatusForbidden, "AccessDenied")))
	count := func(want int) {
		t.Helper()
		for range 20 {
			if _, err := receive(t, s, small); err == nil {
				t.Error("stored")
			}
		}
		if n := strings.Count(f.log.String(), "the object store fails"); n != want {
			t.Errorf("%d lines, want %d: %s", n, want, f.log)
		}
	}
	count(1)
	now = now.Add(sayEvery)
	count(2)
	if _, err := s.Open(t.Context(), "00112233445566778899aabbccddeeff"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := b.Fault(); err == nil || !strings.Contains(err.Error(), "storing") {
		t.Errorf("reading works, storing does not: %v", err)
	}
	now = now.Add(faultLasts)
	if err := b.Fault(); err != nil {
		t.Error(err)
	}
	if strings.Contains(f.log.String(), "secret") {
		t.Error("the log has the key")
	}
}

// TestCopiesForScanners: a copy is whole or an error, and nothing stays of it.
func TestCopiesForScanners(t *testing.T) {
	f := newFake(t)
	o := f.options()
	if err := os.MkdirAll(o.Copies, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Copies, "of a killed server"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s := f.store(b)
	got, err := receive(t, s, large)
	if err != nil {
		t.Fatal(err)
	}
	copies := func(want int) {
		t.Helper()
		entries, err := os.ReadDir(o.Copies)
		if len(entries) != want || (err != nil && !errors.Is(err, fs.ErrNotExist)) {
			t.Errorf("%v, %v", entries, err)
		}
	}
	copies(0)
	path, done, err := b.Local(t.Context(), got.Storage)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := os.ReadFile(path); err != nil || !bytes.Equal(back, []byte(large)) {
		t.Errorf("%d bytes, %v", len(back), err)
	}
	copies(1)
	done()
	copies(0)
	f.failing(only("get", cut))
	if path, _, err := b.Local(t.Context(), got.Storage); !errors.Is(err, files.ErrUnavailable) {
		t.Errorf("%q, %v", path, err)
	}
	copies(0)
}

// TestListThatBeginsAgain: a store that ignores where a list is to begin is not asked for ever.
func TestListThatBeginsAgain(t *testing.T) {
	f := newFake(t)
	b := f.open()
	var list strings.Builder
	list.WriteString("<ListBucketResult>")
	for i := range pageOfKeys {
		fmt.Fprintf(&list, "<Contents><Key>of/ab/ab%030x</Key><LastModified>2020-01-01T00:00:00Z</LastModified></Contents>", i)
	}
	list.WriteString("<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken></ListBucketResult>")
	f.failing(only("list", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, list.String()) }))
	calls := 0
	if err := b.Each(t.Context(), "ab", time.Now(), func([]string) error { calls++; return nil }); err != nil || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
