package desk

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestWhatAnOperatorLooksAt: the server and its pools can be looked at, the last closes are kept when that is asked for, and
// the database is ready until it is closed.
func TestWhatAnOperatorLooksAt(t *testing.T) {
	o := testOptions(t)
	o.KeepCloses = 4
	d := openDesk(t, o)
	if d.Engine() != nil || len(d.Pools()) != 4 {
		t.Errorf("before Start: %v, %d pools", d.Engine(), len(d.Pools()))
	}
	if err := d.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range d.Pools() {
		names[p.Name()] = true
	}
	for _, want := range []string{"http", "conversation", "customer", "agent", "bot"} {
		if !names[want] {
			t.Errorf("no pool %q: %v", want, names)
		}
	}
	c, err := net.Dial("tcp", d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	testkit.Eventually(t, "the close to be told of", func() bool { return len(d.Engine().RecentCloses()) > 0 })
	if got := d.Engine().RecentCloses()[0].Reason; got != eddy.ClosePeerClosed {
		t.Errorf("it ended with %v", got)
	}
	if err := d.Ready(testkit.Context(t)); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Ready(testkit.Context(t)); err == nil {
		t.Error("ready with a closed database")
	}
}

// unready is a store that answers reads and cannot write.
type unready struct {
	store.Store
	err error
}

func (u *unready) Ready() error { return u.err }

// TestReadySaysWhatThePageSays: the operator's check and Desk's own page tell the same, in the same words.
func TestReadySaysWhatThePageSays(t *testing.T) {
	var u unready
	o := testOptions(t)
	o.WrapStore = func(s store.Store) store.Store { u.Store = s; return &u }
	d := openDesk(t, o)
	for _, err := range []error{nil, errors.New("sqlite: the last commit failed: the disk is full")} {
		u.err = err
		status, page := call(d, "GET", "/readyz", "")
		body, _ := io.ReadAll(page.Body)
		got := d.Ready(t.Context())
		if (status == http.StatusOK) != (err == nil) || !errors.Is(got, err) || err != nil && string(body) != err.Error()+"\n" {
			t.Errorf("the store says %v, the page %d %q, the operator's check %v", err, status, body, got)
		}
	}
}
