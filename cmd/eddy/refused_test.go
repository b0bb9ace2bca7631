package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// TestRefusedAreTold: whom --max-conns keeps out is told so in the protocol of every server command; before a handshake of
// TLS there is nobody who could read it.
func TestRefusedAreTold(t *testing.T) {
	data, _ := cmdtest.MadeDesk(t)
	ports := filepath.Join(t.TempDir(), "ports.yaml")
	if err := os.WriteFile(ports, []byte("protocols:\n  a: {host: 127.0.0.1, port: 0, accepts: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const line, busy, http503 = `^busy: .*max_conns.*\n$`, `(?s)^..\x01\x00+\x05.*max_conns$`, `^HTTP/1.1 503 Service Unavailable\r\n(.+\r\n)*Retry-After: 1\r\n(.+\r\n)*Connection: close\r\n`
	for _, c := range []struct{ args, want string }{
		{"serve echo", line}, {"serve line", line}, {"serve lanes", line}, {"serve frame", busy}, {"serve rpc", busy}, {"serve rpc --config " + ports, busy},
		{"serve http", http503}, {"serve ws", http503}, {"desk --data " + data, http503}, {"serve http --tls-self-signed", "^$"}, {"serve rpc --tls-self-signed", "^$"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(c.args)
			if !strings.Contains(c.args, "--config") {
				args = append(args, "--addr", "127.0.0.1:0", "--max-conns", "1")
			}
			p := cmdtest.StartServer(t, args...)
			first := cmdtest.Connect(t, p.Addr)
			if answer := cmdtest.Talk(t, p.Addr, ""); !regexp.MustCompile(c.want).MatchString(answer) {
				t.Errorf("told %q, want %s", answer, c.want)
			}
			first.Close()
			p.Stop()
		})
	}
}
