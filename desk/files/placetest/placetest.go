// Package placetest has the tests that every files.Place passes.
package placetest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-eddy/eddy/desk/files"
)

// Fixture is a kind of place.
type Fixture struct {
	// Open opens a place, the same one for the same name.
	Open func(t *testing.T, name string) files.Place
	// Left returns the keys of all that a place holds, also of what has arrived only in part.
	Left func(t *testing.T, name string) []string
}

// Run runs all tests on places of a kind.
func Run(t *testing.T, f Fixture) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Fixture)
	}{
		{"Sizes", sizes}, {"Broken", broken}, {"Ranges", ranges}, {"Missing", missing}, {"Remove", remove}, {"Each", each}, {"Sweep", sweep}, {"ID", id}, {"Local", local}, {"Many", many}, {"Ended", ended},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}

// fill is content that nothing can shorten.
func fill(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data) // never fails
	return data
}

const all = 40 << 20

func (f Fixture) store(t *testing.T, name string) (*files.Store, files.Place) {
	t.Helper()
	p := f.Open(t, name)
	s, err := files.Open(files.Options{Place: p, MaxSize: all, MinFree: -1, Types: append(files.Types(), "application/octet-stream")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, s *files.Store, name string) []byte {
	t.Helper()
	in, err := s.Open(t.Context(), name)
	must(t, err)
	got, err := io.ReadAll(in)
	must(t, errors.Join(err, in.Close()))
	return got
}

func hold(t *testing.T, f Fixture, name string, want ...string) {
	t.Helper()
	got := f.Left(t, name)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the place holds %q, want %q", got, want)
	}
}

// sizes: files of every size come back as they were, announced or not, with the picture's size of those that are longer
// than a part.
func sizes(t *testing.T, f Fixture) {
	s, _ := f.store(t, "sizes")
	var picture bytes.Buffer
	must(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 40, 30))))
	for _, n := range []int{1, 5000, files.HeaderBytes, files.HeaderBytes + 1, 2*files.HeaderBytes + 12345} {
		for _, announced := range []bool{true, false} {
			data := append(slices.Clone(picture.Bytes()), fill(n)...)[:max(n, picture.Len())]
			declared := int64(-1)
			if announced {
				declared = int64(len(data))
			}
			got, err := s.Receive(t.Context(), bytes.NewReader(data), "x.png", declared)
			must(t, err)
			if got.Size != int64(len(data)) || got.SHA256 != sha256.Sum256(data) || got.Width != 40 || got.Height != 30 {
				t.Errorf("%d bytes: %+v", n, got)
			}
			if back := content(t, s, got.Storage); !bytes.Equal(back, data) {
				t.Errorf("%d bytes: %d came back, or others", n, len(back))
			}
			hold(t, f, "sizes", files.Key(got.Storage))
			must(t, s.Remove(t.Context(), got.Storage))
		}
	}
}

// broken: of a file that does not arrive whole nothing is left, however much has come.
func broken(t *testing.T, f Fixture) {
	s, _ := f.store(t, "broken")
	lost := errors.New("connection lost")
	for _, n := range []int{100, 2*files.HeaderBytes + 1} {
		for name, c := range map[string]struct {
			body     io.Reader
			declared int64
			want     error
		}{
			"lost":                {io.MultiReader(bytes.NewReader(fill(n)), iotest.ErrReader(lost)), -1, lost},
			"less than announced": {bytes.NewReader(fill(n)), int64(n) + 1, files.ErrRead},
			"too large":           {io.MultiReader(bytes.NewReader(fill(n)), bytes.NewReader(fill(all))), -1, files.ErrTooLarge},
		} {
			if got, err := s.Receive(t.Context(), c.body, "x", c.declared); !errors.Is(err, c.want) {
				t.Errorf("%s after %d bytes: %+v, %v", name, n, got, err)
			}
		}
	}
	damaged := append([]byte("\x89PNG\r\n\x1a\n"), fill(2*files.HeaderBytes)...)
	if got, err := s.Receive(t.Context(), bytes.NewReader(damaged), "x.png", -1); !errors.Is(err, files.ErrDamaged) {
		t.Errorf("a damaged picture: %+v, %v", got, err)
	}
	hold(t, f, "broken")
}

// ranges: net/http serves parts of a file, and a file from the middle on.
func ranges(t *testing.T, f Fixture) {
	s, _ := f.store(t, "ranges")
	data := fill(1 << 20)
	got, err := s.Receive(t.Context(), bytes.NewReader(data), "x", -1)
	must(t, err)
	for _, c := range []struct{ from, to int }{{0, len(data)}, {0, 1}, {1, 2}, {1000, 300_000}, {len(data) - 1, len(data)}, {524_288, len(data)}} {
		in, err := s.Open(t.Context(), got.Storage)
		must(t, err)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", c.from, c.to-1))
		w := httptest.NewRecorder()
		http.ServeContent(w, r, "x", time.Time{}, in)
		if w.Code != http.StatusPartialContent || !bytes.Equal(w.Body.Bytes(), data[c.from:c.to]) {
			t.Errorf("%+v: %d, %d bytes", c, w.Code, w.Body.Len())
		}
		must(t, in.Close())
	}
	in, err := s.Open(t.Context(), got.Storage)
	must(t, err)
	defer func() { _ = in.Close() }()
	var part [100]byte
	for _, at := range []int64{500, 0, 1_000_000, 500} {
		n, err := in.Seek(at, io.SeekStart)
		must(t, err)
		if _, err := io.ReadFull(in, part[:]); err != nil || n != at || !bytes.Equal(part[:], data[at:at+100]) {
			t.Errorf("at %d: %v", at, err)
		}
	}
	if n, err := in.Seek(-7, io.SeekEnd); err != nil || n != int64(len(data))-7 {
		t.Errorf("%d, %v", n, err)
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) != 7 {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
	if _, err := in.Seek(-1, io.SeekStart); err == nil {
		t.Error("a position before the file is taken")
	}
}

func missing(t *testing.T, f Fixture) {
	s, p := f.store(t, "missing")
	const name = "00112233445566778899aabbccddeeff"
	if in, err := s.Open(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			_ = in.Close()
		}
		t.Errorf("opened: %v", err)
	}
	must(t, s.Remove(t.Context(), name))
	must(t, p.Each(t.Context(), "00", time.Now().Add(time.Hour), func([]string) error { t.Error("called"); return nil }))
	if err := p.Fault(); err != nil {
		t.Errorf("what is not there is no fault: %v", err)
	}
}

func remove(t *testing.T, f Fixture) {
	s, _ := f.store(t, "remove")
	var names []string
	for range 30 {
		got, err := s.Receive(t.Context(), strings.NewReader("some text"), "x.txt", -1)
		must(t, err)
		names = append(names, got.Storage)
	}
	must(t, s.Remove(t.Context(), names[1:]...))
	hold(t, f, "remove", files.Key(names[0]))
	must(t, s.Remove(t.Context(), append(names, "../x")...))
	hold(t, f, "remove")
}

// each: the names of a shard come some at a time, all of them, and those of others never look like ours.
func each(t *testing.T, f Fixture) {
	_, p := f.store(t, "each")
	const n = 300
	want := make(map[string]bool)
	var mu sync.Mutex
	var put sync.WaitGroup
	for w := range 6 {
		put.Go(func() {
			for i := w; i < n; i += 6 {
				name := fmt.Sprintf("ab%030x", i)
				a, err := p.Create(t.Context(), name, 1)
				if err == nil {
					_, err = a.Write([]byte("x"))
				}
				if err = cmp.Or(err, a.Keep()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				want[name] = true
				mu.Unlock()
			}
		})
	}
	put.Wait()
	got, calls := make(map[string]bool), 0
	must(t, p.Each(t.Context(), "ab", time.Now().Add(time.Hour), func(names []string) error {
		calls++
		for _, name := range names {
			got[name] = true
		}
		return nil
	}))
	if len(got) != n || calls < 2 {
		t.Errorf("%d names in %d calls", len(got), calls)
	}
	none := func([]string) error { t.Error("called"); return nil }
	must(t, p.Each(t.Context(), "ab", time.Now().Add(-time.Hour), none))
	must(t, p.Each(t.Context(), "cd", time.Now().Add(time.Hour), none))
	stop := errors.New("enough")
	if err := p.Each(t.Context(), "ab", time.Now().Add(time.Hour), func([]string) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// sweep: what a killed server was receiving goes, and what is arriving stays.
func sweep(t *testing.T, f Fixture) {
	s, p := f.store(t, "sweep")
	kept, err := s.Receive(t.Context(), strings.NewReader("some text"), "x.txt", -1)
	must(t, err)
	half, err := p.Create(t.Context(), "cd112233445566778899aabbccddeeff", -1)
	must(t, err)
	_, err = half.Write(fill(files.HeaderBytes + 1))
	must(t, err)
	before := len(f.Left(t, "sweep"))
	if before != 2 {
		t.Fatalf("%q", f.Left(t, "sweep"))
	}
	must(t, p.Sweep(t.Context(), time.Now().Add(-time.Hour)))
	if n := len(f.Left(t, "sweep")); n != before {
		t.Errorf("what is arriving was removed: %d are left of %d", n, before)
	}
	must(t, p.Sweep(t.Context(), time.Now().Add(time.Hour)))
	hold(t, f, "sweep", files.Key(kept.Storage))
	half.Drop()
	hold(t, f, "sweep", files.Key(kept.Storage))
}

// id: all servers that ask at once are told the same id, and another place has another one.
func id(t *testing.T, f Fixture) {
	ids := make(chan string, 8)
	var asking sync.WaitGroup
	for range cap(ids) {
		_, p := f.store(t, "id")
		asking.Go(func() {
			id, err := p.ID(t.Context())
			if err != nil || id == "" {
				t.Errorf("%q, %v", id, err)
			}
			ids <- id
		})
	}
	asking.Wait()
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first {
			t.Errorf("%q and %q", id, first)
		}
	}
	_, other := f.store(t, "other")
	if id, err := other.ID(t.Context()); err != nil || id == first {
		t.Errorf("another place: %q, %v", id, err)
	}
	hold(t, f, "id", files.IDName)
}

func local(t *testing.T, f Fixture) {
	s, p := f.store(t, "local")
	data := fill(100_000)
	got, err := s.Receive(t.Context(), bytes.NewReader(data), "x", -1)
	must(t, err)
	path, done, err := p.Local(t.Context(), got.Storage)
	must(t, err)
	back, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(back, data) {
		t.Errorf("%d bytes are in %s", len(back), path)
	}
	done()
	if back := content(t, s, got.Storage); !bytes.Equal(back, data) {
		t.Errorf("afterwards %d bytes", len(back))
	}
}

// many: uploads and downloads at once do not touch each other.
func many(t *testing.T, f Fixture) {
	s, _ := f.store(t, "many")
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			data := fill(files.HeaderBytes + i*1000)
			got, err := s.Receive(t.Context(), bytes.NewReader(data), "x", -1)
			if err != nil {
				t.Error(err)
				return
			}
			in, err := s.Open(t.Context(), got.Storage)
			if err != nil {
				t.Error(err)
				return
			}
			back, err := io.ReadAll(in)
			if err = errors.Join(err, in.Close()); err != nil || !bytes.Equal(back, data) {
				t.Errorf("%d bytes of %d, %v", len(back), len(data), err)
			}
			if err := s.Remove(t.Context(), got.Storage); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
}

// ended: an upload whose client has gone leaves nothing.
func ended(t *testing.T, f Fixture) {
	s, _ := f.store(t, "ended")
	ctx, end := context.WithCancel(t.Context())
	body := io.MultiReader(bytes.NewReader(fill(files.HeaderBytes+1)), readerFunc(func([]byte) (int, error) {
		end()
		return 0, ctx.Err()
	}))
	if got, err := s.Receive(ctx, body, "x", -1); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", got, err)
	}
	hold(t, f, "ended")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
