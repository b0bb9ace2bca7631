package desk

import (
	"crypto/tls"
	"io"
	"net"
	"regexp"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// The port of native clients is there when it is asked for, speaks TLS when the pages do, and is refused by the name of its flag.
func TestDeskFrames(t *testing.T) {
	t.Parallel()
	ping := []byte{0xED, 0xD1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 'h', 'i'} // PING
	for name, flags := range map[string][]string{"plain": nil, "TLS": {"--tls-self-signed"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, _ := cmdtest.MadeDesk(t)
			p := cmdtest.StartServer(t, append([]string{"desk", "--addr", "127.0.0.1:0", "--frames", "127.0.0.1:0", "--data", data}, flags...)...)
			line := regexp.MustCompile(`native clients (127\.0\.0\.1:\d+)\n`)
			c, err := net.Dial("tcp", p.WaitOutput(p.Out, line)[1])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if name == "TLS" {
				c = tls.Client(c, cmdtest.Pinned(p.Fingerprint()))
			}
			if _, err := c.Write(ping); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(ping))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != string(ping) {
				t.Errorf("% x, %v", got, err)
			}
			_ = c.Close()
			p.Stop()
		})
	}
	data, _ := cmdtest.MadeDesk(t)
	cmdtest.ExpectFailure(t, []string{"desk", "--addr", "127.0.0.1:0", "--frames", cmdtest.BusyAddr(t), "--data", data}, "--frames", "another")
}
