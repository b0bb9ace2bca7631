package sqlstore

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

const pgSocket = ".s.PGSQL.5432"

// silentPostgres listens in a folder, and says nothing.
func silentPostgres(t *testing.T) (folder string, l net.Listener) {
	t.Helper()
	folder = t.TempDir()
	l, err := net.Listen("unix", filepath.Join(folder, pgSocket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return folder, l
}

// withHosts returns an address with other machines, and the first one's socket.
func withHosts(t *testing.T, address string, hosts func(socket string) string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("host", hosts(query.Get("host")))
	query.Set("target_session_attrs", "read-write")
	u.RawQuery = query.Encode()
	return u.String()
}

// TestPostgresAddresses: the address names two machines, of which the first one is there and says nothing. Whoever has little time reaches the second one all the same,
// readers with the condition that it takes writes.
func TestPostgresAddresses(t *testing.T) {
	silent, _ := silentPostgres(t)
	address := withHosts(t, freshPostgres(t), func(host string) string { return silent + "," + host })
	r := rigOn(t, onPostgres(t, Options{URL: address}))
	conv := r.open(false)
	for _, reader := range []*reader{r.hot, r.cold} {
		testkit.Eventually(t, "a read within the time of one of the feed", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), pgConnect+pgConnect/3)
			defer cancel()
			_, err := reader.Conversation(ctx, conv.ID)
			return err == nil
		})
		if _, err := reader.db.ExecContext(t.Context(), `DELETE FROM setting`); err == nil || !strings.Contains(err.Error(), pgReadOnly) {
			t.Errorf("a reader writes: %v", err)
		}
	}
}

// TestPostgresIsSlowAtFirst: neither machine answers the first attempt of Open, which tries once more.
func TestPostgresIsSlowAtFirst(t *testing.T) {
	silent, _ := silentPostgres(t)
	slow, l := silentPostgres(t)
	address := withHosts(t, freshPostgres(t), func(host string) string {
		go func() {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			socket := filepath.Join(slow, pgSocket)
			if err := errors.Join(os.Remove(socket), os.Symlink(filepath.Join(host, pgSocket), socket)); err != nil {
				t.Error(err)
			}
			_, _ = io.ReadAll(conn) // until the attempt has ended
		}()
		return silent + "," + slow
	})
	rigOn(t, onPostgres(t, Options{URL: address})).open(false)
}
