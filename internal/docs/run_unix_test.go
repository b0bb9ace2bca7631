//go:build unix

package docs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/filelock"
	"github.com/go-eddy/eddy/internal/testkit"
)

// patience bounds one command, which may have to compile something first.
const patience = 5 * time.Minute

// TestDocumentedCommands does what the documents say: the blocks marked run, in their order, each document in a directory of its own that looks like the
// repository. What they print must be what the document shows. Servers are interrupted at the end, and have to end in order.
func TestDocumentedCommands(t *testing.T) {
	names, blocks := documents(t)
	bench := newBench(t)
	ran := 0
	for _, name := range names {
		commands := slices.DeleteFunc(slices.Clone(blocks[name]), func(b *block) bool { return !b.is("run") && !b.is("interrupt") })
		if len(commands) == 0 {
			continue
		}
		ran += len(commands)
		t.Run(name, func(t *testing.T) { bench.document(t, commands) })
	}
	if ran < 10 {
		t.Errorf("only %d blocks are marked run", ran)
	}
}

// A bench is shared by all documents: the programs, built once, and the ports.
type bench struct {
	root, bin, goTool string
	env               []string
}

// newBench waits until no other process of this machine runs these tests, because the documents name fixed ports.
func newBench(t *testing.T) *bench {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "eddy-documents.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	testkit.Eventually(t, "the end of another run of the documents", func() bool { return filelock.Lock(lock) == nil })
	b := &bench{root: repository(t), bin: t.TempDir(), goTool: goTool}
	b.writeGo(t)
	b.env = append(os.Environ(), "PATH="+b.bin+string(os.PathListSeparator)+os.Getenv("PATH"), "GOBIN="+filepath.Join(b.bin, "installed"), "EDDY_POLLER=")
	for _, name := range []string{"GOENV", "GOCACHE", "GOMODCACHE"} { // they are in HOME, which is another one for each document
		b.env = append(b.env, name+"="+b.ask(t, name))
	}
	return b
}

// builtCommand names the eddy command in the environment, for several test binaries that share one.
const builtCommand = "EDDY_E2E_COMMAND"

// writeGo makes the go command that the documents use. It is the real one, but it builds each program of the repository
// only once.
func (b *bench) writeGo(t *testing.T) {
	t.Helper()
	script := fmt.Sprintf(`#!/bin/sh
root=%[1]q bin=%[2]q go=%[3]q
built() { # the program of a package of the repository
	file=$bin/program-$(basename "$1")
	[ -x "$file" ] || (cd "$root" && exec "$go" build -o "$file" "$1") || exit 1
	echo "$file"
}
case "$1 $2" in
"run ./cmd/eddy" | "run ./examples/"*)
	program=$(built "$2") || exit 1
	shift 2
	exec "$program" "$@" ;;
"install ./cmd/eddy")
	program=$(built "$2") || exit 1
	mkdir -p "$GOBIN" && exec cp "$program" "$GOBIN/eddy" ;;
esac
if [ "$*" = "build -o eddy ./cmd/eddy" ]; then
	program=$(built ./cmd/eddy) || exit 1
	exec cp "$program" eddy
fi
exec "$go" "$@"
`, b.root, b.bin, b.goTool)
	if err := os.WriteFile(filepath.Join(b.bin, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if built := os.Getenv(builtCommand); built != "" {
		if err := os.Symlink(built, filepath.Join(b.bin, "program-eddy")); err != nil {
			t.Fatal(err)
		}
	}
}

// workplace makes a directory named eddy that looks like the repository, in a directory of its own, so that what the commands write stays there.
func (b *bench) workplace(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "eddy")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(b.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".git") {
			continue
		}
		if err := os.Symlink(filepath.Join(b.root, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var portPattern = regexp.MustCompile(`(?:127\.0\.0\.1|localhost)?:(\d{4,5})\b`)

// document executes the blocks of one document.
func (b *bench) document(t *testing.T, blocks []*block) {
	for _, c := range blocks {
		texts := []string{c.text, ":" + c.value("port")}
		if c.shows != nil {
			texts = append(texts, c.shows.text)
		}
		for _, m := range portPattern.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
			testkit.Eventually(t, "port "+m[1]+", which the document uses and another program has", func() bool { return free(m[1]) })
		}
	}
	d := &session{bench: b, env: append(slices.Clone(b.env), "HOME="+t.TempDir()), dir: b.workplace(t), cwd: filepath.Join(t.TempDir(), "cwd")}
	defer d.end(t)
	for _, c := range blocks {
		t.Run(fmt.Sprintf("line %d", c.line), func(t *testing.T) {
			if need := c.value("needs"); need != "" {
				testkit.Tool(t, need)
			}
			switch {
			case c.is("interrupt"):
				d.interrupt(t, c)
			case c.is("server"):
				d.serve(t, c)
			case c.words[0] == "go":
				d.write(t, c)
			default:
				d.execute(t, c)
			}
		})
	}
}

// ask returns a setting of the go command.
func (b *bench) ask(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command(b.goTool, "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// free reports whether a port of the loopback interface has no listener.
func free(port string) bool {
	ln, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

// listened reports whether a port of the loopback interface has a listener.
func listened(port string) bool {
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// A session is a reader at work: the current directory and other terminals.
type session struct {
	*bench
	env     []string
	dir     string // where he is
	cwd     string // file in which a block leaves where it has ended
	servers []*server
}

// command prepares a script, in a process group of its own.
func (d *session) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", script)
	cmd.Dir, cmd.Env = d.dir, d.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// execute runs a block to its end.
func (d *session) execute(t *testing.T, c *block) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := d.command(ctx, "trap 'pwd >"+d.cwd+"' EXIT\n"+c.text).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\nprinted:\n%s", err, c.text, out)
	}
	if c.shows != nil && !c.shows.matches(string(out)) {
		t.Errorf("printed:\n%s\nthe document shows:\n%s", out, c.shows.text)
	}
	where, err := os.ReadFile(d.cwd)
	if err != nil {
		t.Fatal(err)
	}
	d.dir = strings.TrimSpace(string(where))
}

// A server goes on until the end of its document.
type server struct {
	c    *block
	cmd  *exec.Cmd
	out  testkit.Output
	done chan struct{} // closed when it has ended, with err
	err  error
}

func (s *server) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// serve starts a block and returns when it has printed what the document shows.
func (d *session) serve(t *testing.T, c *block) {
	port := c.value("port")
	if c.shows == nil && port == "" {
		t.Fatal("nobody knows when this server is up: the document does not show what it prints, and port= is missing")
	}
	up := func(s *server) bool { return c.shows == nil || c.shows.begins(s.out.String()) }
	s := &server{c: c, done: make(chan struct{})}
	s.cmd = d.command(context.Background(), "exec "+c.text)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	d.servers = append(d.servers, s)
	testkit.Eventually(t, "the server to be up", func() bool {
		ended := s.ended()
		is := up(s) && (port == "" || listened(port))
		if ended && !is {
			t.Fatalf("the server has ended and is not up; it printed:\n%s", s.out.String())
		}
		return is
	})
}

// logged is a line of a log. Connections that a client before has left may be told of as late as this.
var logged = regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d .*\n`)

// interrupt ends the server that was started last. The server then prints what the document shows, beside its log.
func (d *session) interrupt(t *testing.T, c *block) {
	if len(d.servers) == 0 {
		t.Fatal("there is no server to interrupt")
	}
	s := d.servers[len(d.servers)-1]
	d.servers = d.servers[:len(d.servers)-1]
	before := s.out.String()
	s.stop(t)
	if said := logged.ReplaceAllString(strings.TrimPrefix(s.out.String(), before), ""); !c.matches("^C" + said) {
		t.Errorf("interrupted, the server printed:\n%s\nthe document shows:\n%s", said, c.text)
	}
}

// end interrupts the servers that are left, the last one first.
func (d *session) end(t *testing.T) {
	slices.Reverse(d.servers)
	for _, s := range d.servers {
		s.stop(t)
	}
}

// stop interrupts a server and awaits its end.
func (s *server) stop(t *testing.T) {
	t.Helper()
	if s.ended() {
		t.Errorf("%s: the server ended by itself: %v\n%s", s.c.name(), s.err, s.out.String())
		return
	}
	group := -s.cmd.Process.Pid
	if err := syscall.Kill(group, syscall.SIGINT); err != nil {
		t.Error(err)
	}
	select {
	case <-s.done:
	case <-time.After(patience):
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-s.done
		t.Errorf("%s: the server had to be killed\n%s", s.c.name(), s.out.String())
	}
	// The eddy command ends in order. An example ends by the signal.
	if exit, ok := errors.AsType[*exec.ExitError](s.err); ok && eddyPattern.MatchString(s.c.text) {
		t.Errorf("%s: interrupted, the server ended with %v\n%s", s.c.name(), exit, s.out.String())
	}
}

var eddyPattern = regexp.MustCompile(`^(go run \./cmd/eddy|\./eddy|\S*/eddy|eddy) `)

// write makes the file that the document shows.
func (d *session) write(t *testing.T, c *block) {
	file := c.value("file")
	if file == "" {
		t.Fatal("the document does not name the file: file=NAME")
	}
	if err := os.WriteFile(filepath.Join(d.dir, filepath.FromSlash(file)), []byte(c.text), 0o644); err != nil {
		t.Fatal(err)
	}
}
