package websocket

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	xhttp2 "golang.org/x/net/http2"
)

// overHTTP2 reports whether a test runs as a part of TestOverHTTP2.
func overHTTP2(t *testing.T) bool { return strings.HasPrefix(t.Name(), "TestOverHTTP2/") }

// gateway speaks WebSocket by HTTP/1.1 and passes it on to a server by HTTP/2, each connection as a stream of one (RFC
// 8441), as proxies do. It is made of another implementation of HTTP/2.
func gateway(t *testing.T, server string) (addr string) {
	t.Helper()
	client := gatewayTo(t, server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { through(client, c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		_ = client.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// roundTripper is a connection of a client of HTTP/2. That of net/http refuses the field ":protocol".
type roundTripper interface {
	RoundTrip(r *http.Request) (*http.Response, error)
	Close() error
}

// gatewayTo makes the connection of a gateway.
func gatewayTo(t *testing.T, server string) roundTripper {
	t.Helper()
	c, err := net.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).SetReadBuffer(128 << 10) // with narrow
	narrow := &http.Transport{HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 1 << 20}}
	second, err := xhttp2.ConfigureTransports(narrow) //lint:ignore SA1019 see roundTripper
	if err != nil {
		t.Fatal(err)
	}
	client, err := second.NewClientConn(c) //lint:ignore SA1019 see roundTripper
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// through serves one connection of a gateway.
func through(client roundTripper, c *net.TCPConn) {
	defer func() { _ = c.Close() }()
	_ = c.SetWriteBuffer(128 << 10) // with narrow
	br := bufio.NewReader(c)
	asked, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	up, in := io.Pipe()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodConnect, "http://"+asked.Host+asked.RequestURI, up)
	if err != nil {
		return
	}
	r.Header = asked.Header
	key := r.Header.Get("Sec-Websocket-Key")
	for _, name := range []string{"Connection", "Upgrade", "Sec-Websocket-Key"} {
		r.Header.Del(name)
	}
	r.Header[":protocol"] = []string{"websocket"}
	answer, err := client.RoundTrip(r)
	if err != nil {
		_ = c.SetLinger(0)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		answer.Proto, answer.ProtoMajor, answer.ProtoMinor = "HTTP/1.1", 1, 1
		_ = answer.Write(c)
		return
	}
	answer.Header.Set("Sec-Websocket-Accept", acceptKey(key))
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	var b strings.Builder
	_ = answer.Header.Write(&b)
	if _, err := io.WriteString(c, head+b.String()+"\r\n"); err != nil {
		return
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, err := io.Copy(in, br)
		_ = in.CloseWithError(err) // nil: the end of the stream
	}()
	if _, err := io.Copy(c, answer.Body); err != nil {
		_ = c.SetLinger(0) // the stream was reset
		_ = c.Close()
	}
	_ = c.CloseWrite()
	<-sent
}

// TestOverHTTP2: a WebSocket in a stream of HTTP/2 does what one with a connection of its own does.
func TestOverHTTP2(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"EchoWithIndependentClient":            TestEchoWithIndependentClient,
		"FragmentsFromIndependentClient":       TestFragmentsFromIndependentClient,
		"PingFromIndependentClient":            TestPingFromIndependentClient,
		"FramesWithTheHandshakeAndByteByByte":  TestFramesWithTheHandshakeAndByteByByte,
		"Violations":                           TestViolations,
		"RequiredSubprotocol":                  TestRequiredSubprotocol,
		"ServerCloses":                         TestServerCloses,
		"CloseArgumentsAreChecked":             TestCloseArgumentsAreChecked,
		"CloseTimeout":                         TestCloseTimeout,
		"AbnormalEnds":                         TestAbnormalEnds,
		"KeepAlive":                            TestKeepAlive,
		"KeepAliveOfPausedConnection":          TestKeepAliveOfPausedConnection,
		"MessageTimeout":                       TestMessageTimeout,
		"PongsAreDroppedForSlowReaders":        TestPongsAreDroppedForSlowReaders,
		"ConcurrentWritesAndClose":             TestConcurrentWritesAndClose,
		"HandlerFailures":                      TestHandlerFailures,
		"HandleOpenFails":                      TestHandleOpenFails,
		"Drain":                                TestDrain,
		"Conformance":                          TestConformance,
		"SlowReader":                           TestSlowReader,
		"CompressedEchoWithIndependentClients": TestCompressedEchoWithIndependentClients,
		"CompressedEchoWithItself":             TestCompressedEchoWithItself,
		"CompressedViolations":                 TestCompressedViolations,
		"CompressedInPieces":                   TestCompressedInPieces,
		"InflateInSteps":                       TestInflateInSteps,
		"InflatersAreBounded":                  TestInflatersAreBounded,
		"KeepAliveOfWaitingMessage":            TestKeepAliveOfWaitingMessage,
		"TakeoverKeepsOrder":                   TestTakeoverKeepsOrder,
		"WriteBytesKeepsOrder":                 TestWriteBytesKeepsOrder,
		"Hub":                                  TestHub,
		"HubMembership":                        TestHubMembership,
		"HubUnderChurn":                        TestHubUnderChurn,
		"HubWithSlowMembers":                   TestHubWithSlowMembers,
		"HubIsBounded":                         TestHubIsBounded,
		"HubWhenServerStops":                   TestHubWhenServerStops,
		"PreparedCounts":                       TestPreparedCounts,
		"HubForgetsMembers":                    TestHubForgetsMembers,
		"HubHandsOutInBatches":                 TestHubHandsOutInBatches,
		"HubClassesWithTakeover":               TestHubClassesWithTakeover,
	} {
		t.Run(name, test)
	}
}
