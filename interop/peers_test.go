package interop

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/tlsx"
)

// peerService is what Peer.java, peer.py and peer serve. Messages are bytes. Metadata with the keys x-text and x-bytes-bin
// comes back in the header and in the trailer; other metadata is ignored.
//
//	Echo    unary; its request. With the metadata x-zip the response is compressed
//	Fail    unary; FAILED_PRECONDITION with peerMessage and peerDetail
//	Sleep   unary; waits for its deadline
//	Sum     takes a stream; the number of bytes
//	Repeat  sends a stream; "COUNT SIZE": messages with the bytes of pattern
//	Hold    sends a stream; "held", and its request when the server is told to release
//	Ended   unary; waits until a Hold ends before that: "deadline" if it had one within a minute, otherwise "cancelled"
//	Chat    both stream; each message comes back
//	Refuse  both stream; the first message comes back, and then INVALID_ARGUMENT
var peerService = rpc.Key{Interface: "eddy.interop.Peer"}

const (
	peerMessage = "nobody: wer da?\nå %41 😈"
	peerLimit   = 4 << 20 // of the messages that servers and clients take
	peerCalls   = 64      // at once
)

var peerDetail = durationpb.New(time.Hour)

// peer is the service on our side.
type peer struct {
	released chan struct{}
	ended    chan string
	mu       sync.Mutex
	clients  map[netip.AddrPort]bool
}

func (p *peer) service() (*rpc.Service, error) {
	return rpc.NewService(peerService, //nolint:wrapcheck // a test's
		rpc.Raw("Echo", p.echo),
		rpc.Raw("Fail", func(context.Context, []byte) ([]byte, error) {
			return nil, &rpc.Status{Code: rpc.CodeFailedPrecondition, Message: peerMessage, Details: []proto.Message{peerDetail}}
		}),
		rpc.Raw("Ended", func(context.Context, []byte) ([]byte, error) { return []byte(<-p.ended), nil }),
		rpc.Raw("Sleep", func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		rpc.Streaming("Hold", rpc.ServerStreams, p.hold),
		rpc.Streaming("Sum", rpc.ClientStreams, func(_ context.Context, s rpc.Stream) error {
			sum := 0
			for message, err := range rpc.ReceiverOf[[]byte](s).All() {
				if err != nil {
					return err
				}
				sum += len(*message)
			}
			return s.Send(fmt.Append(nil, sum))
		}),
		rpc.Streaming("Repeat", rpc.ServerStreams, repeat),
		rpc.Streaming("Chat", rpc.BothStream, func(_ context.Context, s rpc.Stream) error {
			for message, err := range rpc.ReceiverOf[[]byte](s).All() {
				if err == nil {
					err = s.Send(*message)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
		rpc.Streaming("Refuse", rpc.BothStream, func(_ context.Context, s rpc.Stream) error {
			var first []byte
			if err := s.Recv(&first); err != nil {
				return err
			}
			if err := s.Send(first); err != nil {
				return err
			}
			return rpc.Statusf(rpc.CodeInvalidArgument, "enough")
		}))
}

func (p *peer) echo(ctx context.Context, body []byte) ([]byte, error) {
	call := rpc.CallFrom(ctx)
	p.mu.Lock()
	p.clients[call.Peer] = true
	p.mu.Unlock()
	for _, m := range call.Metadata {
		if m.Key != "x-text" && m.Key != "x-bytes-bin" {
			continue
		}
		if err := rpc.SetHeader(ctx, m); err != nil {
			return nil, err
		}
		if err := rpc.SetTrailer(ctx, m); err != nil {
			return nil, err
		}
	}
	return body, nil
}

func (p *peer) hold(ctx context.Context, s rpc.Stream) error {
	var message []byte
	if err := s.Recv(&message); err != nil {
		return err
	}
	if err := s.Send([]byte("held")); err != nil {
		return err
	}
	select {
	case <-p.released:
		return s.Send(message)
	case <-ctx.Done():
		how := "cancelled"
		if by, limited := ctx.Deadline(); limited && time.Until(by) < time.Minute {
			how = "deadline"
		}
		p.ended <- how
		return ctx.Err()
	}
}

func repeat(_ context.Context, s rpc.Stream) error {
	var message []byte
	if err := s.Recv(&message); err != nil {
		return err
	}
	var count, size int
	if _, err := fmt.Sscan(string(message), &count, &size); err != nil {
		return rpc.Statusf(rpc.CodeInvalidArgument, "%v", err)
	}
	for range count {
		if err := s.Send(pattern(size)); err != nil {
			return err
		}
	}
	return nil
}

// servePeer serves the service, with TLS if there is a certificate.
func servePeer(t *testing.T, id *identity) (p *peer, srv *rpc.Server, addr string) {
	t.Helper()
	port := rpc.PortOptions{Name: "p", Addr: "127.0.0.1:0", MaxPayload: peerLimit, MaxResponse: 2 * peerLimit, ReadTimeout: testkit.Patience}
	if id != nil {
		pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Queue: 64})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		layer, err := tlsx.Server(&tls.Config{Certificates: []tls.Certificate{id.cert}, NextProtos: []string{"h2"}}, pool, tlsx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		port.Front = func(p *eddy.Pipeline) error { return p.Add("tls", layer) }
	}
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{port}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	p = &peer{released: make(chan struct{}), ended: make(chan string, 1024), clients: map[netip.AddrPort]bool{}}
	service, err := p.service()
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Register(service); err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	return p, srv, srv.Addr("p").String()
}

// foreignPeer is a program in testdata that calls the service and serves it.
type foreignPeer struct {
	path     string
	args     []string
	tls      bool
	tooLarge rpc.Code // its server's answer to a request over the limit
	leaving  rpc.Code // its server's answer, beside UNAVAILABLE, to a call that comes while it drains
}

// runs runs the program as a client.
func (f foreignPeer) runs(t *testing.T, args ...string) {
	t.Helper()
	run(t, f.path, append(f.args[:len(f.args):len(f.args)], args...)...)
}

// serves starts the program as a server, with TLS if there is a certificate, and returns its address.
func (f foreignPeer) serves(t *testing.T, id *identity) (p *program, addr string) {
	t.Helper()
	args := append(f.args[:len(f.args):len(f.args)], "server")
	if id != nil {
		args = append(args, id.certFile, id.keyFile)
	}
	p = begin(t, f.path, args...)
	testkit.Eventually(t, "the port of the server", func() bool { return strings.Contains(p.out.String(), "\n") })
	return p, "127.0.0.1:" + strings.TrimSpace(p.out.String())
}

// TestPeers: gRPC's implementations in Java, on Netty, and in C call our server and serve our client. Each needs packages
// of Debian, which scripts/long installs.
func TestPeers(t *testing.T) {
	id := newIdentity(t)
	for name, of := range map[string]func(t *testing.T) foreignPeer{"grpc-java": peerInJava, "grpcio": peerInPython} {
		t.Run(name, func(t *testing.T) {
			f := of(t)
			for secure, id := range map[string]*identity{"plain": nil, "TLS": &id} {
				if id != nil && !f.tls {
					continue
				}
				t.Run("calls our server/"+secure, func(t *testing.T) {
					p, _, addr := servePeer(t, id)
					args := []string{"cases", addr}
					if id != nil {
						args = append(args, id.certFile)
					}
					f.runs(t, args...)
					p.mu.Lock()
					defer p.mu.Unlock()
					if len(p.clients) != 1 {
						t.Errorf("the calls came by %d connections", len(p.clients))
					}
				})
				t.Run("serves our client/"+secure, func(t *testing.T) {
					_, addr := f.serves(t, id)
					peerCases(t, addr, id, f.tooLarge)
				})
			}
			t.Run("gzip", func(t *testing.T) { f.gzip(t) })
			t.Run("our server drains", func(t *testing.T) { f.seesDrain(t) })
			t.Run("drains", func(t *testing.T) { f.drains(t) })
		})
	}
}

// gzip sends a message of zeros both ways, in each direction.
func (f foreignPeer) gzip(t *testing.T) {
	small := func(what string, n *atomic.Int64) {
		if got := n.Load(); got < 100 || got > peerLimit/100 {
			t.Errorf("%s: %d bytes on the wire", what, got)
		}
	}
	_, _, addr := servePeer(t, nil)
	addr, up, down := metered(t, addr)
	f.runs(t, "gzip", addr)
	small("requests to our server", up)
	small("responses of our server", down)
	_, addr = f.serves(t, nil)
	addr, up, down = metered(t, addr)
	message := make([]byte, 1<<20)
	got, err := rpc.Invoke[[]byte](t.Context(), peerClient(t, addr, nil, rpc.GRPCOptions{Gzip: true}), peerService, "Echo", message,
		rpc.CallMetadata(rpc.Pair{Key: "x-zip", Value: "yes"}))
	if err != nil || len(*got) != len(message) {
		t.Fatalf("%v, %v", err, got)
	}
	small("requests of our client", up)
	small("responses to our client", down)
}

// metered returns an address behind which is that of a server, and the bytes that go to the server and come from it.
func metered(t *testing.T, backend string) (addr string, up, down *atomic.Int64) {
	t.Helper()
	up, down = new(atomic.Int64), new(atomic.Int64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", backend)
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, way := range []struct {
				to, from net.Conn
				n        *atomic.Int64
			}{{server, client, up}, {client, server, down}} {
				wg.Go(func() {
					_, _ = io.Copy(io.MultiWriter(way.to, counter{way.n}), way.from)
					_, _ = client.Close(), server.Close()
				})
			}
		}
	})
	return l.Addr().String(), up, down
}

// counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

// Write implements io.Writer.
func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// seesDrain: our server shuts down while the program's calls are in it. They finish, and others are refused.
func (f foreignPeer) seesDrain(t *testing.T) {
	p, srv, addr := servePeer(t, nil)
	client := begin(t, f.path, append(f.args[:len(f.args):len(f.args)], "drain", addr)...)
	testkit.Eventually(t, "calls in flight", func() bool { return strings.Contains(client.out.String(), "held\n") })
	down := make(chan error, 1)
	go func() {
		report, err := srv.Shutdown(testkit.Context(t))
		if err == nil && (report.Forced != 0 || report.Dropped != 0) {
			err = fmt.Errorf("%+v", report)
		}
		down <- err
	}()
	testkit.Eventually(t, "a call that is refused", func() bool { return strings.Contains(client.out.String(), "refused\n") })
	close(p.released)
	client.ends(t)
	if err := testkit.Receive(t, "the end of our server", down); err != nil {
		t.Error(err)
	}
}

// javaJars are where Debian has its jars, those of grpc-java and what they need.
const javaJars = "/usr/share/java/"

// peerInJava compiles Peer.java. The jars do not name their dependencies. There is no TLS, because Debian's Netty lacks ALPN.
func peerInJava(t *testing.T) foreignPeer {
	t.Helper()
	javac, java := testkit.Tool(t, "java", "javac"), testkit.Tool(t, "java")
	var jars []string
	for _, name := range []string{
		"grpc-api", "grpc-context", "grpc-core", "grpc-netty", "grpc-stub", "guava", "jctools-core", "perfmark-api", "netty-buffer", "netty-codec",
		"netty-codec-http", "netty-codec-http2", "netty-common", "netty-handler", "netty-resolver", "netty-transport",
	} {
		jar := javaJars + name + ".jar"
		if _, err := os.Stat(jar); err != nil {
			absent(t, "grpc-java", "libgrpc-java, libnetty-java and libperfmark-java: "+err.Error())
		}
		jars = append(jars, jar)
	}
	dir := t.TempDir()
	path := strings.Join(append(jars, dir), string(filepath.ListSeparator))
	run(t, javac, "-encoding", "UTF-8", "-cp", path, "-d", dir, "testdata/Peer.java")
	return foreignPeer{path: java, args: []string{"-cp", path, "Peer"}, tooLarge: rpc.CodeCanceled, leaving: rpc.CodeUnavailable}
}

// peerInPython looks for a Python that has grpcio: the first of the path, or that of Debian's package.
func peerInPython(t *testing.T) foreignPeer {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import grpc").Run() == nil {
			return foreignPeer{path: python, args: []string{"testdata/peer.py"}, tls: true, tooLarge: rpc.CodeResourceExhausted, leaving: rpc.CodeCanceled}
		}
	}
	absent(t, "grpcio", "python3-grpcio")
	panic("unreachable")
}

// absent ends a test for lack of packages of Debian: it is skipped, or fails if EDDY_REQUIRE names what.
func absent(t *testing.T, what, packages string) {
	t.Helper()
	if testkit.Required(what) {
		t.Fatalf("%s is required by EDDY_REQUIRE and is not installed: Debian's %s", what, packages)
	}
	t.Skipf("%s is not installed: Debian's %s", what, packages)
}
