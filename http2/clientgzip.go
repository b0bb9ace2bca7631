package http2

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// asksGzip reports whether the client asks for gzip on behalf of r, as net/http does: r names no encoding and no range.
func asksGzip(r *http.Request) bool {
	return r.Header.Get("Accept-Encoding") == "" && r.Header.Get("Range") == "" && r.Method != http.MethodHead && r.Method != http.MethodConnect
}

// gunzip makes the body of a gzip response that the client has asked for the plain one.
func gunzip(resp *http.Response) {
	if !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") || resp.Body == http.NoBody {
		return
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	resp.Uncompressed = true
	resp.Body = &gzipBody{body: resp.Body}
}

// gzipBody decodes a body while it is read, from the first Read on.
type gzipBody struct {
	body io.ReadCloser
	zr   *gzip.Reader
	err  error // of the header; sticky
}

// Read implements io.Reader.
func (g *gzipBody) Read(p []byte) (int, error) {
	if g.zr == nil && g.err == nil {
		g.zr, g.err = gzip.NewReader(g.body)
	}
	if g.err != nil {
		return 0, g.err
	}
	return g.zr.Read(p) //nolint:wrapcheck // io.EOF must stay bare
}

// Close implements io.Closer.
func (g *gzipBody) Close() error { return g.body.Close() }
