package http1

import (
	"io"
	"io/fs"
	"net/http"
	"os"
	"reflect"
	"syscall"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sys"
)

const (
	// minFile is the least number of bytes for which sendfile is used. Fewer are copied.
	minFile = maxPiece
	// filePiece is the most that an eddy.File counts for in the outbound queue.
	filePiece = 256 << 10
)

// ReadFrom implements io.ReaderFrom, for io.Copy, http.ServeContent and http.ServeFile. ReadFrom returns when everything
// was queued, and blocks while the client does not read, as Write does. src may be closed after the call.
//
// The kernel sends the bytes of a regular file when the response has a Content-Length and there is no TLS. The file may be
// inside an io.LimitedReader. A WriteHandler in the pipeline then sees an *eddy.File. Everything else is copied. A file must
// not be shortened before the client has it, or the connection ends short of the Content-Length.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	sent, err := w.sendFile(src)
	if err != nil {
		return sent, err
	}
	copied, err := io.Copy(writerOnly{w}, src)
	return sent + copied, err
}

// writerOnly hides ReadFrom, so that io.Copy calls Write.
type writerOnly struct{ io.Writer }

// file is the part of an os.File that sendFile needs.
type file interface {
	io.ReaderAt
	io.Seeker
	syscall.Conn
	Name() string
	Stat() (fs.FileInfo, error)
}

// fileOf returns the file that src reads, nil if there is none, and the reader that limits it, if any. A type of package os
// that embeds an *os.File counts as the file, as in io.Copy. Such types of other packages may read something else.
func fileOf(src io.Reader) (f file, limit *io.LimitedReader) {
	if l, ok := src.(*io.LimitedReader); ok {
		src, limit = l.R, l
	}
	if t := reflect.TypeOf(src); t == reflect.TypeFor[*os.File]() || t != nil && t.PkgPath() == "os" {
		f, _ = src.(file)
	}
	return f, limit
}

// rest returns the offset of f and how many bytes follow it. n is 0 when that is unknown, as for a pipe or a device.
func rest(f file) (at, n int64) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0
	}
	if at, err = f.Seek(0, io.SeekCurrent); err != nil {
		return 0, 0
	}
	return at, info.Size() - at
}

// sendFile lets the kernel send the bytes of a file that src reads. The caller copies the rest of src.
func (w *response) sendFile(src io.Reader) (int64, error) {
	f, limit := fileOf(src)
	if f == nil || w.isHead || w.hijacked || w.ex.sc.tls != nil {
		return 0, nil
	}
	at, n := rest(f)
	if limit != nil {
		n = min(n, limit.N)
	}
	if n < minFile {
		return 0, nil
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n = min(n, w.length-w.written)
	if n < minFile || !bodyAllowed(w.status) || w.err != nil || w.bufs == nil { // the copying Write returns the error
		return 0, nil
	}
	var copied int64
	if !w.headSent { // the head needs the first bytes, to sniff the content type
		var err error
		if copied, err = io.Copy(writerOnly{w}, io.LimitReader(src, sniffLen)); err != nil {
			return copied, err
		}
	}
	if err := w.flush(); err != nil {
		return copied, err
	}
	sent, err := w.sendPieces(f, at+copied, n-copied)
	if limit != nil {
		limit.N -= sent
	}
	if _, failed := f.Seek(at+copied+sent, io.SeekStart); err == nil {
		err = failed
	}
	return copied + sent, err
}

// sendPieces queues n bytes of f from offset at on. Each piece counts in full in the outbound queue, so that a client that
// does not read blocks the handler. sent is less than n, without an error, when f has no more or no descriptor is free.
func (w *response) sendPieces(f file, at, n int64) (sent int64, err error) {
	for sent < n {
		// Read the piece into the page cache here, because the loop must not wait for the disk.
		piece, err := io.Copy(io.Discard, io.NewSectionReader(f, at+sent, min(n-sent, filePiece)))
		if piece == 0 || err != nil {
			return sent, err
		}
		own, err := sys.Dup(f, f.Name()) // the handler may close f at any time
		if err != nil {
			return sent, nil //nolint:nilerr // copying needs none
		}
		msg := &eddy.File{File: own, Offset: at + sent, Length: piece}
		if err := w.ex.write(msg); err != nil {
			msg.Release()
			w.fail(err)
			return sent, err
		}
		w.written += piece
		sent += piece
	}
	return sent, nil
}
