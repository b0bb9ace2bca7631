package pgsyntax

import (
	"context"
	"io"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// tap stands between a Desk and PostgreSQL, and keeps every statement that goes through.
type tap struct {
	listener net.Listener
	socket   string // of the server
	done     sync.WaitGroup

	mu         sync.Mutex
	statements map[string]bool
	conns      map[net.Conn]bool
	closed     bool
}

// newTap listens in front of the server of an address.
func newTap(t *testing.T, address string) *tap {
	t.Helper()
	c, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(c.Host, "/") {
		t.Fatalf("the server is at %s, not at a socket", c.Host)
	}
	socket := filepath.Join(c.Host, ".s.PGSQL."+strconv.Itoa(int(c.Port)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{listener: l, socket: socket, statements: make(map[string]bool), conns: make(map[net.Conn]bool)}
	p.done.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// through returns the address by which a database is reached through the tap.
func (p *tap) through(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.RawQuery = p.listener.Addr().String(), "sslmode=disable"
	return u.String()
}

func (p *tap) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		var dialer net.Dialer
		server, err := dialer.DialContext(context.Background(), "unix", p.socket)
		if err != nil || !p.keep(client, server) {
			_ = client.Close()
			continue
		}
		p.done.Go(func() {
			_, _ = io.Copy(client, server)
			_ = client.Close()
		})
		p.done.Go(func() {
			p.read(client, server)
			_ = server.Close()
			_ = client.Close()
		})
	}
}

// keep has both ends closed by close. It reports whether there is still time.
func (p *tap) keep(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range ends {
		if p.closed {
			_ = c.Close()
		}
		p.conns[c] = true
	}
	return !p.closed
}

// read passes on what a client says, and notes its statements.
func (p *tap) read(client io.Reader, server io.Writer) {
	b := pgproto3.NewBackend(io.TeeReader(client, server), io.Discard)
	first, err := b.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if _, ok := first.(*pgproto3.StartupMessage); !ok { // a cancellation
		return
	}
	for {
		m, err := b.Receive()
		if err != nil { // the end, or nothing that PostgreSQL would take
			return
		}
		switch m := m.(type) {
		case *pgproto3.Parse:
			p.note(m.Query)
		case *pgproto3.Query:
			p.note(m.String)
		}
	}
}

func (p *tap) note(statement string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statements[statement] = true
}

// all returns the statements so far, sorted.
func (p *tap) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.statements))
}

func (p *tap) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
}
