package relay

import (
	"errors"
	"testing"

	"github.com/go-eddy/eddy"
)

// TestNeverOpened: a side whose connection ended before it was opened is no side of a pair. The dialer reports that to
// the other side.
func TestNeverOpened(t *testing.T) {
	told := 0
	r, err := New(Options{Dialer: &eddy.Dialer{}, Done: func(Report) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	client := r.Handler(nil, nil).(*side)
	for _, s := range []*side{client, client.other} {
		s.HandleClose(nil, eddy.CloseInternalError, errors.New("no place in the poller"))
	}
	if told != 0 || r.Stats() != (Stats{}) {
		t.Errorf("%d reports, %+v", told, r.Stats())
	}
}
