package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

func openStore(t *testing.T, o Options) *Store {
	t.Helper()
	return openOn(t, filepath.Join(t.TempDir(), "files"), realDisk{}, o)
}

// openOn opens a store in a directory on a disk.
func openOn(t *testing.T, dir string, on disk, o Options) *Store {
	t.Helper()
	d, err := openDirectory(dir, false, on)
	if err != nil {
		t.Fatal(err)
	}
	o.Place = d
	if o.MinFree == 0 {
		o.MinFree = -1
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// directory returns where the store's files are.
func directory(s *Store) *Directory { return s.o.Place.(*Directory) }

// onDisk returns the regular files below the store's directory.
func onDisk(t *testing.T, s *Store) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(directory(s).path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(directory(s).path, path)
			all = append(all, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestReceive(t *testing.T) {
	s := openStore(t, Options{})
	data := append(pngOf(t, 40, 30), bytes.Repeat([]byte("x"), 100_000)...)
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(data), "in bytes": iotest.OneByteReader(bytes.NewReader(data)), "with the end": iotest.DataErrReader(bytes.NewReader(data))} {
		f, err := s.Receive(t.Context(), r, "../photo.jpg", int64(len(data)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f.Name != "photo.jpg.png" || f.Type != "image/png" || f.Size != int64(len(data)) || f.Width != 40 || f.Height != 30 || f.SHA256 != sha256.Sum256(data) {
			t.Errorf("%s: %+v", name, f)
		}
		if strings.Contains(f.Storage, "photo") || !valid(f.Storage) {
			t.Errorf("%s: stored as %q", name, f.Storage)
		}
		in, err := s.Open(t.Context(), f.Storage)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: read back %d bytes, %v", name, len(got), err)
		}
		_ = in.Close()
		if files := onDisk(t, s); len(files) != 1 || files[0] != f.Storage[:2]+"/"+f.Storage {
			t.Errorf("%s: %v", name, files)
		}
		if err := errors.Join(s.Remove(t.Context(), f.Storage), s.Remove(t.Context(), f.Storage)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := s.incoming.Load(); n != 0 {
		t.Errorf("%d bytes are still reserved", n)
	}
}

func TestReceiveRefuses(t *testing.T) {
	s := openStore(t, Options{MaxSize: 50_000})
	text := bytes.Repeat([]byte("some text\n"), 5000)
	bomb := append([]byte("GIF89a\xff\xff\xff\xff\x00\x00\x00"), "..."...)
	cut := errors.New("connection lost")
	for name, c := range map[string]struct {
		body     io.Reader
		declared int64
		want     error
	}{
		"announced too large":      {bytes.NewReader(text), 50_001, ErrTooLarge},
		"too large":                {io.MultiReader(bytes.NewReader(text), strings.NewReader("x")), -1, ErrTooLarge},
		"empty":                    {strings.NewReader(""), -1, ErrEmpty},
		"announced empty":          {strings.NewReader("x"), 0, ErrEmpty},
		"html":                     {strings.NewReader("<html><script>alert(1)</script>"), -1, ErrType},
		"svg":                      {strings.NewReader(`<svg onload="alert(1)"/>`), -1, ErrType},
		"program":                  {strings.NewReader("MZ\x90\x00"), -1, ErrType},
		"damaged picture":          {bytes.NewReader(pngOf(t, 40, 30)[:20]), -1, ErrDamaged},
		"picture of 65535 × 65535": {bytes.NewReader(bomb), -1, ErrDamaged},
		"lost at once":             {iotest.ErrReader(cut), -1, cut},
		"lost in the beginning":    {io.MultiReader(strings.NewReader("some text"), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, io.ErrUnexpectedEOF},
		"lost in the middle":       {io.MultiReader(bytes.NewReader(text), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, ErrRead},
		"less than announced":      {bytes.NewReader(text[:100]), 101, ErrRead},
		"more than announced":      {bytes.NewReader(text[:100]), 99, ErrRead},
	} {
		f, err := s.Receive(t.Context(), c.body, "x.png", c.declared)
		if !errors.Is(err, c.want) || f != (File{}) {
			t.Errorf("%s: %+v, %v, want %v", name, f, err, c.want)
		}
		if left := onDisk(t, s); len(left) != 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
	if f, err := s.Receive(t.Context(), bytes.NewReader(text), "x.txt", -1); err != nil || f.Size != 50_000 {
		t.Errorf("as large as the limit: %+v, %v", f, err)
	}
	if n := s.incoming.Load(); n != 0 {
		t.Errorf("%d bytes are still reserved", n)
	}
}

// What is not taken is not read to its end.
func TestTypeIsDecidedEarly(t *testing.T) {
	s := openStore(t, Options{})
	body := strings.NewReader("<html>" + strings.Repeat("x", 1<<20))
	if _, err := s.Receive(t.Context(), body, "x.png", -1); !errors.Is(err, ErrType) || body.Len() < 1<<20-headBytes {
		t.Errorf("%v with %d bytes unread", err, body.Len())
	}
}

// brokenDisk fails where it is told to; the n-th write is cut in the middle.
type brokenDisk struct {
	realDisk
	fail    string
	err     error
	freeNow uint64

	mu    sync.Mutex
	calls []string
}

func (d *brokenDisk) call(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, what)
	if d.fail == what {
		return d.err
	}
	return nil
}

func (d *brokenDisk) create(path string) (diskFile, error) {
	if err := d.call("create"); err != nil {
		return nil, err
	}
	f, err := d.realDisk.create(path)
	return &brokenFile{f, d}, err
}

func (d *brokenDisk) rename(from, to string) error {
	return errors.Join(d.call("rename"), func() error {
		if d.fail == "rename" {
			return nil
		}
		return d.realDisk.rename(from, to)
	}())
}

func (d *brokenDisk) mkdir(path string) error {
	if err := d.call("mkdir"); err != nil {
		return err
	}
	return d.realDisk.mkdir(path)
}

func (d *brokenDisk) syncDir(path string) error {
	what := "sync directory"
	if filepath.Base(path) == "files" {
		what = "sync root"
	}
	return errors.Join(d.call(what), d.realDisk.syncDir(path))
}

func (d *brokenDisk) free(path string) (uint64, bool) {
	if d.freeNow > 0 {
		return d.freeNow, true
	}
	return d.realDisk.free(path)
}

type brokenFile struct {
	diskFile
	d *brokenDisk
}

func (f *brokenFile) Write(p []byte) (int, error) {
	if err := f.d.call("write"); err != nil {
		n, _ := f.diskFile.Write(p[:len(p)/2])
		return n, err
	}
	return f.diskFile.Write(p)
}

func (f *brokenFile) Sync() error {
	return errors.Join(f.d.call("sync"), f.diskFile.Sync())
}

func (f *brokenFile) Close() error { return errors.Join(f.diskFile.Close(), f.d.call("close")) }

// Whatever the disk does, a file is there whole or not at all, and a full disk is called that.
func TestDiskFails(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	broken := errors.New("input/output error")
	for _, step := range []string{"create", "write", "sync", "close", "mkdir", "sync root", "rename", "sync directory"} {
		for _, err := range []error{full, broken} {
			d := &brokenDisk{fail: step, err: err}
			s := openOn(t, filepath.Join(t.TempDir(), "files"), d, Options{})
			_, got := s.Receive(t.Context(), strings.NewReader("some text"), "x.txt", -1)
			if !errors.Is(got, err) || errors.Is(got, ErrFull) != errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: %v", step, got)
			}
			if left := onDisk(t, s); len(left) != 0 {
				t.Errorf("%s: left %v", step, left)
			}
			d.fail = ""
			if _, err := s.Receive(t.Context(), strings.NewReader("some text"), "x.txt", -1); err != nil {
				t.Errorf("%s, mended: %v", step, err)
			}
		}
	}
}

// The bytes are durable before the name is, and the name before Receive returns.
func TestOrderOfSyncs(t *testing.T) {
	d := &brokenDisk{}
	s := openOn(t, filepath.Join(t.TempDir(), "files"), d, Options{})
	if _, err := s.Receive(t.Context(), strings.NewReader("some text"), "x.txt", -1); err != nil {
		t.Fatal(err)
	}
	want := "[create write sync close mkdir sync root rename sync directory]"
	if got := fmt.Sprint(d.calls); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestRoomOnTheDisk(t *testing.T) {
	d := &brokenDisk{freeNow: 1500}
	s := openOn(t, filepath.Join(t.TempDir(), "files"), d, Options{MinFree: 1000})
	begun, rest := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := s.Receive(t.Context(), io.MultiReader(strings.NewReader("a"), readerFunc(func([]byte) (int, error) {
			close(begun)
			<-rest
			return 0, io.ErrUnexpectedEOF
		})), "x.txt", 300)
		first <- err
	}()
	<-begun
	if _, err := s.Receive(t.Context(), strings.NewReader(strings.Repeat("x", 201)), "x.txt", 201); !errors.Is(err, ErrFull) {
		t.Errorf("with another one on its way: %v", err)
	}
	if _, err := s.Receive(t.Context(), strings.NewReader(strings.Repeat("x", 200)), "x.txt", 200); err != nil {
		t.Errorf("as much as there is room for: %v", err)
	}
	close(rest)
	if err := <-first; !errors.Is(err, ErrRead) {
		t.Error(err)
	}
	if _, err := s.Receive(t.Context(), strings.NewReader("x"), "x.txt", -1); !errors.Is(err, ErrFull) {
		t.Errorf("without a size it may be as large as the limit: %v", err)
	}
	if _, err := s.Receive(t.Context(), strings.NewReader(strings.Repeat("x", 500)), "x.txt", 500); err != nil {
		t.Errorf("when the other one is over: %v", err)
	}
	if free, known := freeBytes(t.TempDir()); known && free == 0 {
		t.Error("the disk of the tests has no room, it is said")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestOpenClearsWhatWasArriving(t *testing.T) {
	s := openStore(t, Options{})
	kept, err := s.Receive(t.Context(), strings.NewReader("some text"), "x.txt", -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory(s).incoming(), "half"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := openOn(t, directory(s).path, realDisk{}, Options{})
	if left := onDisk(t, again); len(left) != 1 || filepath.Base(left[0]) != kept.Storage {
		t.Errorf("%v", left)
	}
	if info, err := os.Stat(directory(again).of(kept.Storage)); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read it: %v %v", info.Mode(), err)
	}
}

// A directory where files arrive is not ours: it is left alone.
func TestSweepLeavesDirectories(t *testing.T) {
	s := openStore(t, Options{})
	foreign := filepath.Join(directory(s).incoming(), "foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := directory(s).Sweep(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

// A picture may have as many pixels as the limit says, and not one more.
func TestPixelsAreLimited(t *testing.T) {
	s := openStore(t, Options{})
	header := func(w, h uint32) []byte { // of a PNG file, which is all that is read of it
		ihdr := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("IHDR"), w), h)
		ihdr = append(ihdr, 8, 0, 0, 0, 0)
		png := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), ihdr...)
		return binary.BigEndian.AppendUint32(png, crc32.ChecksumIEEE(ihdr))
	}
	if f, err := s.Receive(t.Context(), bytes.NewReader(header(10_000, maxPixels/10_000)), "x.png", -1); err != nil || f.Width*f.Height != maxPixels {
		t.Errorf("%+v %v", f, err)
	}
	const w = 17
	if (maxPixels+1)%w != 0 {
		t.Fatal("choose another width")
	}
	if _, err := s.Receive(t.Context(), bytes.NewReader(header(w, (maxPixels+1)/w)), "x.png", -1); !errors.Is(err, ErrDamaged) {
		t.Errorf("one more: %v", err)
	}
}

func TestNamesFromOutside(t *testing.T) {
	s := openStore(t, Options{})
	outside := filepath.Join(filepath.Dir(directory(s).path), "secret")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "../secret", "..", "ab/../../secret", strings.Repeat("A", 32), strings.Repeat("a", 31) + "/", strings.Repeat(".", 32)} {
		if f, err := s.Open(t.Context(), name); !errors.Is(err, os.ErrNotExist) {
			if err == nil {
				_ = f.Close()
			}
			t.Errorf("%q: %v", name, err)
		}
		if err := s.Remove(t.Context(), name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

// TestNothingToRemove: a place is not asked to remove nothing, as of a directory whose files all have rows.
func TestNothingToRemove(t *testing.T) {
	s := openStore(t, Options{})
	s.o.Place = nil
	if err := s.Remove(t.Context(), "../etc/passwd"); err != nil {
		t.Error(err)
	}
}

func TestEach(t *testing.T) {
	s := openStore(t, Options{})
	dir := filepath.Join(directory(s).path, "ab")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	name := func(i int) string { return fmt.Sprintf("ab%030x", i) }
	const files = namesAtOnce*2 + 3
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, name(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, foreign := range []string{"README", "cd" + name(1)[2:], name(1) + "0"} {
		if err := os.WriteFile(filepath.Join(dir, foreign), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen, calls := make(map[string]bool), 0
	err := s.each(t.Context(), 0xab, time.Now().Add(time.Hour), func(names []string) error {
		if calls++; len(names) > namesAtOnce {
			t.Errorf("%d names at once", len(names))
		}
		for _, n := range names {
			seen[n] = true
		}
		return nil
	})
	if err != nil || len(seen) != files || calls < 3 {
		t.Errorf("%d names in %d calls, %v", len(seen), calls, err)
	}
	none := func([]string) error { t.Error("called"); return nil }
	if err := errors.Join(s.each(t.Context(), 0xab, time.Now().Add(-time.Hour), none), s.each(t.Context(), 0xcd, time.Now(), none)); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, path := range map[string]string{"is empty": "", "cannot be made": filepath.Join(file, "files")} {
		if _, err := OpenDirectory(path, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, o := range map[string]Options{"Options.Place": {}, "Options.MaxSize": {Place: new(Directory), MaxSize: -1}} {
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
