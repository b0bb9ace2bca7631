// Package zkserver is for tests: it runs a ZooKeeper as Debian packages it, in a process of its own.
package zkserver

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

// jar is where Debian's package has the server.
const jar = "/usr/share/java/zookeeper.jar"

// Server is a running ZooKeeper on the loopback.
type Server struct {
	Addr string

	cmd  *exec.Cmd
	out  testkit.Output
	done chan struct{} // closed when the process has ended
}

// Java returns the program that runs the server. Without it or the server the test is skipped, or fails if EDDY_REQUIRE names zookeeper.
func Java(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat(jar); err != nil {
		if testkit.Required("zookeeper") {
			t.Fatal("zookeeper is required by EDDY_REQUIRE and is not installed")
		}
		t.Skip("zookeeper is not installed")
	}
	return testkit.Tool(t, "zookeeper", "java")
}

// New returns a server without data, which ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s, err := Start(Java(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Start runs a server with its data in dir. The caller stops it. Another program may take the free port before the server binds it: then there is
// another try.
func Start(java, dir string) (s *Server, err error) {
	for range 10 {
		if s, err = start(java, dir); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func start(java, dir string) (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_ = ln.Close()
	addr := ln.Addr().(*net.TCPAddr)
	config := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=ruok\n",
		filepath.Join(dir, "data"), addr.Port)
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	s := &Server{Addr: addr.String(), done: make(chan struct{})}
	s.cmd = exec.Command(java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jar, "-Djava.net.preferIPv4Stack=true",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
	}()
	for !s.ok() {
		select {
		case <-s.done:
			return nil, fmt.Errorf("the server has ended: %s", s.out.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return s, nil
}

// ok asks the server whether it serves. It may not answer a connection that came while it started.
func (s *Server) ok() bool {
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c, "ruok")
	answer, _ := io.ReadAll(c)
	return string(answer) == "imok"
}

// Stop kills the server and waits for its end. A second call does nothing.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
}
