package sqlstore

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// TestPostgresAddresses: the address names two machines, of which the first one is there and says nothing. Whoever has little time reaches the second one all the same,
// readers with the condition that it takes writes.
func TestPostgresAddresses(t *testing.T) {
	silent, err := net.Listen("unix", filepath.Join(t.TempDir(), ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	u, err := url.Parse(freshPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("host", filepath.Dir(silent.Addr().String())+","+query.Get("host"))
	query.Set("target_session_attrs", "read-write")
	u.RawQuery = query.Encode()
	r := rigOn(t, onPostgres(t, Options{URL: u.String()}))
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
