package http1

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"syscall"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sys"
)

const (
	// minFile is the least number of bytes for which sendfile is used. Fewer are copied.
	minFile = maxPiece
	// copyBuffer is what the others are copied with.
	copyBuffer = 32 << 10
	// filePiece bounds one eddy.File. It counts for at most 256 KiB in the outbound queue.
	filePiece = 4 << 20
)

// ReadFrom implements io.ReaderFrom, for io.Copy, http.ServeContent and http.ServeFile. ReadFrom returns when everything
// was queued, and blocks while the client does not read, as Write does. src may be closed after the call.
//
// The kernel sends the bytes of a regular file when the response has a Content-Length and there is no TLS. The file may be
// inside an io.LimitedReader. A WriteHandler in the pipeline then sees an *eddy.File. Over TLS the file is read into
// buffers of the engine, and a WriteHandler sees *buf.Shared. Everything else is copied. A file must not be shortened
// before the client has it, or the connection ends short of the Content-Length.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	sent, err := w.sendFile(src)
	if err != nil {
		return sent, err
	}
	copied, err := w.copyFrom(src)
	return sent + copied, err
}

// writerOnly hides ReadFrom, so that io.Copy calls Write.
type writerOnly struct{ io.Writer }

// copyFrom is io.Copy with a buffer of the engine for files, which would make one of their own.
func (w *response) copyFrom(src io.Reader) (int64, error) {
	f, limit := fileOf(src)
	if f == nil {
		return io.Copy(writerOnly{w}, src)
	}
	size := int64(copyBuffer)
	if limit != nil {
		size = min(size, max(limit.N, 1))
	}
	b := w.ex.conn.Buffers().Get(int(size))
	defer b.Release()
	return io.CopyBuffer(writerOnly{w}, struct{ io.Reader }{src}, b.Bytes())
}

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

// sendFile sends the bytes of a file that src reads, without TLS by the kernel. The caller copies the rest of src.
func (w *response) sendFile(src io.Reader) (int64, error) {
	f, limit := fileOf(src)
	if f == nil || w.isHead || w.hijacked {
		return 0, nil
	}
	if limit != nil && limit.N < minFile {
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
	next := filePieceOf
	if w.ex.sc.tls != nil {
		next = w.readPiece
	}
	for sent < n {
		msg, piece, err := next(f, at+sent, n-sent)
		if msg == nil || err != nil {
			return sent, err
		}
		if err := w.ex.write(msg); err != nil {
			w.fail(err)
			return sent, err
		}
		w.written += piece
		sent += piece
		if w.ex.sc.tls != nil {
			runtime.Gosched() // the loop encrypts and sends the piece while the caches have it, and pieces do not pile up
		}
	}
	return sent, nil
}

// filePieceOf returns a piece that the kernel sends, of at most n bytes. msg is nil when f has no more or no descriptor is
// free. The piece is read into the page cache here, because the loop must not wait for the disk.
func filePieceOf(f file, at, n int64) (msg eddy.Releaser, piece int64, err error) {
	piece, err = sys.Prefetch(f, at, min(n, filePiece))
	if piece == 0 || err != nil {
		return nil, 0, err
	}
	own, err := sys.Dup(f, f.Name()) // the handler may close f at any time
	if err != nil {
		return nil, 0, nil //nolint:nilerr // copying needs none
	}
	return &eddy.File{File: own, Offset: at, Length: piece}, piece, nil
}

// readPiece returns a piece in memory, of at most n bytes, for a layer that changes every byte. msg is nil when f ends
// within the piece.
func (w *response) readPiece(f file, at, n int64) (msg eddy.Releaser, piece int64, err error) {
	b := w.ex.conn.Buffers().Get(int(min(n, maxPiece)))
	k, err := f.ReadAt(b.Bytes(), at)
	if k == b.Len() {
		return b, int64(k), nil
	}
	b.Release()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return nil, 0, err
}
