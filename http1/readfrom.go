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

// minFile is how many bytes of a file the kernel is asked to send; fewer are copied.
const minFile = maxPiece

// ReadFrom implements io.ReaderFrom, for io.Copy, http.ServeContent and http.ServeFile. It returns when everything was
// queued, and blocks while the client does not read, as Write does.
//
// The kernel sends the bytes of a regular file, also of one inside an io.LimitedReader, when the response has a
// Content-Length and there is no TLS; a WriteHandler in the pipeline meets an *eddy.File. All else is copied. src may be
// closed after the call, but a file must not be shortened before the client has it: the connection then ends, short of the
// Content-Length.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	sent, err := w.sendFile(src)
	if err != nil {
		return sent, err
	}
	copied, err := io.Copy(writerOnly{w}, src)
	return sent + copied, err
}

// writerOnly hides ReadFrom.
type writerOnly struct{ io.Writer }

// file is what sendFile needs of an os.File.
type file interface {
	io.ReaderAt
	io.Seeker
	syscall.Conn
	Name() string
	Stat() (fs.FileInfo, error)
}

// fileOf returns the file that src reads, nil if it is none, and what limits it. A type of package os that embeds an
// *os.File stands for it, as in io.Copy; such types of others may read something else.
func fileOf(src io.Reader) (f file, limit *io.LimitedReader) {
	if l, ok := src.(*io.LimitedReader); ok {
		src, limit = l.R, l
	}
	if t := reflect.TypeOf(src); t == reflect.TypeFor[*os.File]() || t != nil && t.PkgPath() == "os" {
		f, _ = src.(file)
	}
	return f, limit
}

// rest returns where f is read next and how many bytes follow, 0 when that cannot be told, as of a pipe or a device.
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

// sendFile lets the kernel send what src has of a file. What it leaves is to be copied.
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
	if n < minFile || !bodyAllowed(w.status) || w.err != nil || w.bufs == nil { // Write says what is wrong
		return 0, nil
	}
	var copied int64
	if !w.headSent { // what tells the content type goes out with the head
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

// sendPieces queues n bytes of f from at on, in pieces that count in full in the outbound queue, so that a client that does
// not read is noticed. It returns how many it has queued, fewer also when f has no more or there is no descriptor.
func (w *response) sendPieces(f file, at, n int64) (sent int64, err error) {
	for sent < n {
		// Read here what the loop will send: it must not wait for the disk.
		piece, err := io.Copy(io.Discard, io.NewSectionReader(f, at+sent, min(n-sent, eddy.FileWindow)))
		if piece == 0 || err != nil {
			return sent, err
		}
		own, err := sys.Dup(f, f.Name()) // for f is closed when the handler likes
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
