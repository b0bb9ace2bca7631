// Package s3test is for tests that need an object store: a process of versitygw with its objects in a temporary directory.
package s3test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/go-eddy/eddy/internal/testkit"
)

// Key and Secret are those of the only account.
const (
	Key    = "desk-key"
	Secret = "desk-secret"
)

// Server is a running object store, reached by a TCP port of this process that can be cut off.
type Server struct {
	Endpoint string // http://127.0.0.1:PORT
	Root     string // has a directory for each bucket, with a file for each object

	socket string

	mu   sync.Mutex
	down bool
	open map[net.Conn]bool
	done sync.WaitGroup
}

// Start starts an object store that the end of the test ends. The test is skipped without versitygw, unless EDDY_REQUIRE
// names it: "go -C interop/versitygw tool -n versitygw" builds it and says where it is.
func Start(t testing.TB) *Server {
	t.Helper()
	program := testkit.Tool(t, "versitygw")
	dir, err := os.MkdirTemp("", "s3-") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := &Server{Root: filepath.Join(dir, "root"), socket: filepath.Join(dir, "socket"), open: make(map[net.Conn]bool)}
	side := filepath.Join(dir, "side") // for what would need extended attributes
	for _, d := range []string{s.Root, side} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out := new(testkit.Output)
	ended := make(chan struct{})
	cmd := exec.Command(program, "--quiet", "--keep-alive", "--port", s.socket, "posix", "--sidecar", side, s.Root)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+Key, "ROOT_SECRET_KEY="+Secret)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	testkit.Eventually(t, "the object store listens", func() bool {
		select {
		case <-ended:
			t.Fatalf("versitygw has ended: %s", out)
		default:
		}
		c, err := net.Dial("unix", s.socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	s.listen(t)
	return s
}

// listen forwards a port to the socket, because versitygw does not say which port it has chosen.
func (s *Server) listen(t testing.TB) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Endpoint = "http://" + l.Addr().String()
	s.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.done.Go(func() { s.forward(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.Down(true)
		s.done.Wait()
	})
}

func (s *Server) forward(c net.Conn) {
	up, err := net.Dial("unix", s.socket)
	if err != nil || !s.hold(c) {
		_ = c.Close()
		if up != nil {
			_ = up.Close()
		}
		return
	}
	s.done.Go(func() {
		_, _ = io.Copy(up, c)
		_ = up.Close()
	})
	_, _ = io.Copy(c, up)
	_ = c.Close()
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
}

func (s *Server) hold(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		s.open[c] = true
	}
	return !s.down
}

// Down cuts every connection and lets no other one in, or lets them in again.
func (s *Server) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	for c := range s.open {
		if down {
			_ = c.Close()
		}
	}
}

// Client returns a client of the account.
func (s *Server) Client(t testing.TB) *minio.Core {
	t.Helper()
	c, err := minio.NewCore(strings.TrimPrefix(s.Endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4(Key, Secret, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Bucket makes a bucket and returns its address for --files.
func (s *Server) Bucket(t testing.TB, name string) string {
	t.Helper()
	if err := s.Client(t).MakeBucket(context.Background(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return "s3://" + name + "?endpoint=" + s.Endpoint
}

// Keys returns what a program needs in its environment to use the account, and nothing else of this machine.
func Keys() map[string]string {
	return map[string]string{
		"AWS_ACCESS_KEY_ID": Key, "AWS_SECRET_ACCESS_KEY": Secret, "AWS_EC2_METADATA_DISABLED": "true", "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_CONFIG_FILE": os.DevNull,
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "NO_PROXY": "127.0.0.1",
	}
}

// Objects returns the paths of everything in a bucket, behind it.
func (s *Server) Objects(t testing.TB, bucket string) (keys []string) {
	t.Helper()
	for o := range s.Client(t).ListObjectsIter(context.Background(), bucket, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// Unfinished returns how many uploads in parts a bucket has that were neither completed nor given up.
func (s *Server) Unfinished(t testing.TB, bucket string) int {
	t.Helper()
	page, err := s.Client(t).ListMultipartUploads(context.Background(), bucket, "", "", "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Uploads)
}
