package http1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// tempFile makes a file of n bytes that begins like a page.
func tempFile(t *testing.T, n int) (name string, data []byte) {
	t.Helper()
	data = []byte("<!DOCTYPE html>")
	for i := len(data); i < n; i++ {
		data = append(data, byte(i*7+i>>9))
	}
	name = filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name, data
}

// opened returns how many descriptors of this process are open on the file, -1 where the system does not tell.
func opened(name string) int {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return -1
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && to == name {
			n++
		}
	}
	return n
}

// awaitOpen waits until n descriptors are open on the file, where the system tells.
func awaitOpen(t *testing.T, name string, n int) {
	t.Helper()
	testkit.Eventually(t, strconv.Itoa(n)+" open files", func() bool { k := opened(name); return k == n || k < 0 })
}

// fileNoter counts the files that go out.
type fileNoter struct{ n *atomic.Int64 }

func (f fileNoter) HandleWrite(ctx *eddy.Context, msg any) error {
	if _, ok := msg.(*eddy.File); ok {
		f.n.Add(1)
	}
	return ctx.Write(msg)
}

// noteFiles makes s count them.
func (s *server) noteFiles() *atomic.Int64 {
	n := new(atomic.Int64)
	init := s.srv.Init
	s.srv.Init = func(p *eddy.Pipeline) error { return errors.Join(init(p), p.Add("files", fileNoter{n})) }
	return n
}

// sendsFiles skips a test of what only happens where files are sent without copying.
func sendsFiles(t *testing.T) {
	t.Helper()
	f, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	own, err := sys.Dup(f, f.Name())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = own.Close()
}

// disguise embeds a file and reads something else.
type disguise struct{ *os.File }

func (d disguise) Read(p []byte) (int, error) {
	n, err := d.File.Read(p)
	return copy(p, bytes.Repeat([]byte("x"), n)), err
}

// copying is one way to answer with a file of fileSize bytes.
type copying struct {
	path   string
	length int                                          // Content-Length, 0 for none
	do     func(w io.Writer, f *os.File) (int64, error) // nil = io.Copy
	n      int64
	err    error
	want   []byte
	files  bool  // are sent by the kernel
	at     int64 // where the file stands afterwards
	kind   string
}

const fileSize = 1<<20 + 77

// copyings are ways that go by the kernel, and ways that must not.
func copyings(data []byte) []copying {
	const page, bin, text = "text/html; charset=utf-8", "application/octet-stream", "text/plain; charset=utf-8"
	around := bytes.Join([][]byte{[]byte("before"), data, []byte("after")}, nil)
	return []copying{
		{"/copy", fileSize, nil, fileSize, nil, data, true, fileSize, page},
		{"/direct", fileSize, func(w io.Writer, f *os.File) (int64, error) { return w.(io.ReaderFrom).ReadFrom(f) }, fileSize, nil, data, true, fileSize, page},
		{"/limited", 500_000, copyLimited, 500_000, nil, data[:500_000], true, 500_000, page},
		{"/middle", fileSize - 1000, func(w io.Writer, f *os.File) (int64, error) {
			_, _ = f.Seek(1000, io.SeekStart)
			return io.Copy(w, f)
		}, fileSize - 1000, nil, data[1000:], true, fileSize, bin},
		{"/between", len(around), func(w io.Writer, f *os.File) (int64, error) {
			_, _ = io.WriteString(w, "before")
			n, err := io.Copy(w, f)
			_, _ = io.WriteString(w, "after")
			return n, err
		}, fileSize, nil, around, true, fileSize, bin},
		{"/longer", 100_000, nil, 100_000, http.ErrContentLength, data[:100_000], true, 132_768, page},
		{"/chunked", 0, nil, fileSize, nil, data, false, fileSize, page},
		{"/small", 1000, func(w io.Writer, f *os.File) (int64, error) { return io.CopyN(w, f, 1000) }, 1000, nil, data[:1000], false, 1000, page},
		{"/disguise", 100_000, func(w io.Writer, f *os.File) (int64, error) { return io.CopyN(w, disguise{f}, 100_000) },
			100_000, nil, bytes.Repeat([]byte("x"), 100_000), false, 100_000, text},
		{"/pipe", fileSize, func(w io.Writer, _ *os.File) (int64, error) { return copyPipe(w, data) }, fileSize, nil, data, false, 0, page},
		{"/nobody", fileSize, func(w io.Writer, f *os.File) (int64, error) {
			w.(http.ResponseWriter).WriteHeader(http.StatusNotModified)
			return io.Copy(w, f)
		}, 0, http.ErrBodyNotAllowed, nil, false, 32 << 10, ""},
	}
}

// copyLimited copies as much as a limit allows, and checks that the limit is used up.
func copyLimited(w io.Writer, f *os.File) (int64, error) {
	lr := &io.LimitedReader{R: f, N: 500_000}
	n, err := io.Copy(w, lr)
	if lr.N != 0 {
		err = errors.Join(err, fmt.Errorf("%d bytes are left of the limit", lr.N))
	}
	return n, err
}

// copyPipe copies from an os.File that is no file.
func copyPipe(w io.Writer, data []byte) (int64, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer func() { _ = from.Close() }()
	go func() {
		_, _ = to.Write(data)
		_ = to.Close()
	}()
	return io.Copy(w, from)
}

// Files go out by the kernel where that is possible, and by copying where not. Either way the client gets the same bytes,
// and ReadFrom has read as much as it says.
func TestReadFrom(t *testing.T) {
	sendsFiles(t)
	name, data := tempFile(t, fileSize)
	byPath := map[string]copying{}
	for _, tt := range copyings(data) {
		byPath[tt.path] = tt
	}
	type outcome struct {
		n, at int64
		err   error
	}
	ended := make(chan outcome, 1)
	s := prepare(t, setup{handler: func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		tt := byPath[r.URL.Path]
		if tt.length > 0 {
			w.Header().Set("Content-Length", strconv.Itoa(tt.length))
		}
		do := tt.do
		if do == nil {
			do = func(w io.Writer, f *os.File) (int64, error) { return io.Copy(w, f) }
		}
		n, err := do(w, f)
		at, _ := f.Seek(0, io.SeekCurrent)
		_ = f.Close()
		ended <- outcome{n, at, err}
	}})
	files := s.noteFiles()
	s.listen()
	c := s.client()
	for _, tt := range byPath {
		files.Store(0)
		resp, err := c.Get(s.url(tt.path))
		if err != nil {
			t.Fatalf("%s: %v", tt.path, err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if kind := resp.Header.Get("Content-Type"); err != nil || !bytes.Equal(got, tt.want) || kind != tt.kind {
			t.Errorf("%s: %d bytes of %s, %v; want %d of %s", tt.path, len(got), kind, err, len(tt.want), tt.kind)
		}
		o := testkit.Receive(t, "the handler", ended)
		if o.n != tt.n || !errors.Is(o.err, tt.err) || o.at != tt.at {
			t.Errorf("%s: %d, %v, and the file stands at %d; want %d, %v, %d", tt.path, o.n, o.err, o.at, tt.n, tt.err, tt.at)
		}
		if n := files.Load(); (n > 0) != tt.files {
			t.Errorf("%s: %d files went out, want some: %v", tt.path, n, tt.files)
		}
	}
	if st := s.srv.Stats(); st.Accepted != 1 {
		t.Errorf("%d connections, want one", st.Accepted)
	}
	awaitOpen(t, name, 0)
}

// net/http serves files here: a whole file, ranges of it, its head, and many requests in one write.
func TestReadFromServeFile(t *testing.T) {
	sendsFiles(t)
	const size = fileSize
	name, data := tempFile(t, size)
	s := prepare(t, setup{handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/data" {
			http.ServeFile(w, r, name)
			return
		}
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = f.Close() }()
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = io.Copy(w, f) // also for HEAD
	}})
	files := s.noteFiles()
	s.listen()
	c := s.dial()
	for _, tt := range []struct {
		method, path, span string
		status             int
		want               []byte
		files              bool
	}{
		{"GET", "/data", "", 200, data, true}, {"GET", "/data", "bytes=1000-300999", 206, data[1000:301_000], true},
		{"GET", "/data", "bytes=-100000", 206, data[size-100_000:], true}, {"GET", "/data", "bytes=5-9", 206, data[5:10], false},
		{"GET", "/data", "bytes=2000000-", 416, nil, false}, {"HEAD", "/data", "", 200, nil, false},
		{"HEAD", "/data", "bytes=1000-300999", 206, nil, false}, {"HEAD", "/copy", "", 200, nil, false}, {"GET", "/copy", "", 200, data, true},
	} {
		files.Store(0)
		in := tt.method + " " + tt.path + " HTTP/1.1\r\nHost: a\r\n"
		if tt.span != "" {
			in += "Range: " + tt.span + "\r\n"
		}
		c.send(in + "\r\n")
		resp, body := c.response(tt.method)
		if resp.StatusCode != tt.status || tt.status != 416 && body != string(tt.want) || resp.Close {
			t.Errorf("%s %q: %d, %d bytes, close=%v", tt.method, tt.span, resp.StatusCode, len(body), resp.Close)
		}
		if tt.method == "HEAD" && tt.span == "" && resp.ContentLength != size {
			t.Errorf("HEAD says %d bytes", resp.ContentLength)
		}
		if n := files.Load(); (n > 0) != tt.files {
			t.Errorf("%s %q: %d files went out, want some: %v", tt.method, tt.span, n, tt.files)
		}
	}
	const get = "GET /data HTTP/1.1\r\nHost: a\r\n"
	c.send(get + "\r\n" + get + "Range: bytes=0-99999\r\n\r\n" + "HEAD /data HTTP/1.1\r\nHost: a\r\n\r\n" + get + "Connection: close\r\n\r\n")
	for i, want := range []struct {
		method string
		body   []byte
	}{{"GET", data}, {"GET", data[:100_000]}, {"HEAD", nil}, {"GET", data}} {
		if _, body := c.response(want.method); body != string(want.body) {
			t.Errorf("pipelined response %d has %d bytes, want %d", i, len(body), len(want.body))
		}
	}
	if more := c.rest(); more != "" {
		t.Errorf("more: %d bytes", len(more))
	}
	awaitOpen(t, name, 0)
}

// A handler that has sent a file has its place in the pool again, because sending a file is not a stream.
func TestFileKeepsItsPlace(t *testing.T) {
	sendsFiles(t)
	name, data := tempFile(t, fileSize)
	var s *server
	parked := make(chan int, 1)
	s = startWith(t, setup{pool: executor.Options{Workers: 1}, handler: func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, name)
		parked <- s.pool.Stats().Parked
	}})
	c := s.dial()
	c.send(keepGet)
	if _, body := c.response("GET"); body != string(data) {
		t.Errorf("%d bytes of %d", len(body), len(data))
	}
	if n := testkit.Receive(t, "the handler", parked); n != 0 {
		t.Errorf("%d handlers are parked", n)
	}
}
