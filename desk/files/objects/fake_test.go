package objects

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/internal/testkit"
)

// fake is an object store that fails where it is told to. What it does when nothing fails is enough for one upload at a
// time; versitygw is the one that everything else is tested with.
type fake struct {
	t    *testing.T
	at   string
	log  *testkit.Output
	mu   sync.Mutex
	has  map[string][]byte
	half map[int][]byte // parts of the upload, nil = there is none
	said []string       // what was asked for
	// fault answers a request in its own way, and says whether it has.
	fault func(w http.ResponseWriter, r *http.Request, what string) bool
}

func newFake(t *testing.T) *fake {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "",
	} {
		t.Setenv(name, value)
	}
	f := &fake{t: t, log: new(testkit.Output), has: make(map[string][]byte)}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.at = s.URL
	return f
}

// open opens the bucket, and forgets what that took.
func (f *fake) open() *Bucket {
	f.t.Helper()
	b, err := Open(f.t.Context(), f.options())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(b.Close)
	f.asked()
	return b
}

func (f *fake) options() Options {
	return Options{
		URL: "s3://desk/of?endpoint=" + f.at, Copies: filepath.Join(f.t.TempDir(), "copies"), Logger: slog.New(slog.NewTextHandler(f.log, nil)), pause: time.Millisecond,
	}
}

func (f *fake) store(b *Bucket) *files.Store {
	f.t.Helper()
	s, err := files.Open(files.Options{Place: b, MaxSize: 40 << 20})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// failing sets what fails from now on; nil = nothing.
func (f *fake) failing(fault func(w http.ResponseWriter, r *http.Request, what string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// asked returns what was asked for since the last call.
func (f *fake) asked() (what []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what, f.said = f.said, nil
	return what
}

// left returns how much is there: objects, and parts of objects.
func (f *fake) left() (objects, parts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.has), len(f.half)
}

// what names a request: put, get, head, delete, list, uploads, begin, part, complete or abort.
func what(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case q.Has("uploadId"):
		return map[string]string{http.MethodPut: "part", http.MethodPost: "complete", http.MethodDelete: "abort"}[r.Method]
	case q.Has("uploads"):
		return map[string]string{http.MethodPost: "begin", http.MethodGet: "uploads"}[r.Method]
	case q.Has("list-type"):
		return "list"
	}
	return strings.ToLower(r.Method)
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := what(r)
	f.mu.Lock()
	f.said = append(f.said, what)
	fault := f.fault
	f.mu.Unlock()
	if fault != nil && fault(w, r, what) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/desk/")
	switch what {
	case "put":
		if r.Header.Get("If-None-Match") == "*" && f.has[key] != nil {
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		f.has[key] = body
	case "get", "head":
		if f.has[key] == nil {
			fail(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", `"etag"`)
		http.ServeContent(w, r, "x", time.Now(), bytes.NewReader(f.has[key]))
	case "delete":
		delete(f.has, key)
		w.WriteHeader(http.StatusNoContent)
	case "begin":
		f.half = make(map[int][]byte)
		_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
	case "part":
		f.half[len(f.half)+1] = body
		w.Header().Set("ETag", `"part"`)
	case "complete":
		if f.half == nil {
			fail(w, http.StatusNotFound, "NoSuchUpload")
			return
		}
		f.complete(key)
		_, _ = fmt.Fprintf(w, "<CompleteMultipartUploadResult><Bucket>desk</Bucket><Key>%s</Key><ETag>e</ETag></CompleteMultipartUploadResult>", key)
	case "abort":
		f.half = nil
		w.WriteHeader(http.StatusNoContent)
	default:
		_, _ = fmt.Fprintf(w, "<ListBucketResult></ListBucketResult>")
	}
}

// complete joins the parts. f.mu is held.
func (f *fake) complete(key string) {
	var all []byte
	for i := range len(f.half) {
		all = append(all, f.half[i+1]...)
	}
	f.has[key], f.half = all, nil
}

// fail answers with an error of the API.
func fail(w http.ResponseWriter, status int, code string) {
	failWith(w, status, code, "the message of "+code)
}

func failWith(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}{Code: code, Message: message})
}
