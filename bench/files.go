package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// files compares servers that send files over lasting connections. The sizes are those of the cases.
func files(ctx context.Context, b *binaries, s settings) (*report, error) {
	root := filepath.Join(b.dir, "files")
	if err := makeFiles(root, s); err != nil {
		return nil, err
	}
	serve := []string{"-files", root}
	contenders := []contender{
		{Name: "net/http", binary: "nethttp", args: serve},
		{Name: "valyala/fasthttp", binary: "fasthttp", args: serve},
		{Name: onPoolName, binary: "eddyhttp", args: append([]string{"-workers", "8"}, serve...)},
	}
	note := "nginx: not measured, because it is not installed."
	if _, err := exec.LookPath("nginx"); err == nil {
		work := filepath.Join(b.dir, "nginx-work")
		if err := os.MkdirAll(work, 0o777); err != nil {
			return nil, err
		}
		contenders = append(contenders, contender{Name: nginxName, binary: "nginx", args: append([]string{"-work", work}, serve...)})
		note = firstLine("sh", "-c", "nginx -v 2>&1") + ", sendfile and tcp_nopush on."
	}
	rep, err := compare(ctx, b, s, "requests", fileLoad, contenders)
	if err != nil {
		return nil, err
	}
	rep.Note = "The built-in generator compares every byte. " + note
	return rep, nil
}

// filesTLS compares servers that send files over lasting connections of TLS.
func filesTLS(ctx context.Context, b *binaries, s settings) (*report, error) {
	root := filepath.Join(b.dir, "files")
	if err := makeFiles(root, s); err != nil {
		return nil, err
	}
	serve := []string{"-tls", "-files", root}
	rep, err := compare(ctx, b, s, "requests", fileLoadTLS, []contender{
		{Name: "net/http", binary: "nethttp", args: serve, tls: true},
		{Name: onPoolName, binary: "eddyhttp", args: append([]string{"-workers", "8"}, serve...), tls: true},
	})
	if err == nil {
		rep.Note = "TLS 1.3. The clients are goroutines of the driver, which compare every byte; only the processor time of the server counts."
	}
	return rep, err
}

func fileLoadTLS(srv *server, s settings, c testCase) rounder {
	return &tlsFile{tlsLoad{
		addr: srv.addr, conns: c.conns, size: s.size, pipeline: c.pipeline, request: fileRequest(s.size),
		warmup: s.warmup, duration: s.duration,
	}}
}

// tlsFile asks the server once for its answer. tlsLoad then compares every other answer with that one.
type tlsFile struct{ tlsLoad }

func (f *tlsFile) round(ctx context.Context, mark func() error) (*result, error) {
	c, err := dialTLS(f.addr)
	if err != nil {
		return nil, err
	}
	if f.want, err = askOn(c, f.request); err != nil {
		return nil, err
	}
	return f.tlsLoad.round(ctx, mark)
}

// comparedFiles are the cases of files.
var comparedFiles = []testCase{{conns: 64, pipeline: 1, size: 4 << 10}, {conns: 16, pipeline: 1, size: 1 << 20}, {conns: 2, pipeline: 1, size: 100 << 20}}

const nginxName = "nginx, one worker"

// makeFiles makes a file for each case, whose name is its size.
func makeFiles(root string, s settings) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	for _, c := range s.cases {
		size := s.of(c).size
		if err := os.WriteFile(filepath.Join(root, strconv.Itoa(size)), pattern(size, 0), 0o644); err != nil {
			return err
		}
	}
	return os.Chmod(filepath.Dir(root), 0o755) // for a server that gives up its rights
}

func fileLoad(srv *server, s settings, c testCase) rounder {
	return &httpRound{srv.addr, fileRequest(s.size), s, c}
}

// fileRequest asks for the file of that size.
func fileRequest(size int) string {
	return strings.Replace(httpRequest, "/plaintext", fmt.Sprintf("/%d", size), 1)
}
