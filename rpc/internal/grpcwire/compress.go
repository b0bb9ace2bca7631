package grpcwire

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"sync"
)

// Gzip is the name of the compression that everybody has.
const Gzip = "gzip"

var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}
	gzipReaders sync.Pool // *gzip.Reader
)

// sliceWriter appends to a slice.
type sliceWriter struct{ b []byte }

// Write implements io.Writer.
func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// Compress appends msg with gzip to dst.
func Compress(dst, msg []byte) ([]byte, error) {
	zw := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(zw)
	w := &sliceWriter{dst}
	zw.Reset(w)
	if _, err := zw.Write(msg); err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	if err := zw.Close(); err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	return w.b, nil
}

// Decompress returns the content of a message in gzip, if it has at most limit bytes. Memory grows with what there is, and
// not with what the message says.
func Decompress(msg []byte, limit int) ([]byte, error) {
	src := bytes.NewReader(msg)
	zr, _ := gzipReaders.Get().(*gzip.Reader)
	var err error
	if zr == nil {
		zr, err = gzip.NewReader(src)
	} else {
		err = zr.Reset(src)
	}
	if err != nil {
		return nil, fmt.Errorf("a message that is no gzip: %w", err)
	}
	defer gzipReaders.Put(zr)
	out, err := io.ReadAll(io.LimitReader(zr, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("a message that is no gzip: %w", err)
	case len(out) > limit:
		return nil, &TooLargeError{len(out), limit}
	}
	return out, nil
}
