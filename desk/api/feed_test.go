package api

import (
	"context"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// silent is a store in which one thing happens when the test says so.
type silent struct {
	store.Store
	store.Reader
	news chan struct{}
	rows atomic.Pointer[store.OutboxRow] // what has happened, nil = nothing
}

func (s *silent) ID() string                                  { return "01234567-89ab" }
func (s *silent) Cold() store.Reader                          { return s }
func (s *silent) OutboxNews() <-chan struct{}                 { return s.news }
func (s *silent) Sites(context.Context) ([]store.Site, error) { return nil, nil }
func (s *silent) Contact(context.Context, string) (store.Contact, error) {
	return store.Contact{ID: "c"}, nil
}

func (s *silent) FieldValues(context.Context, string) (map[string]string, error) { return nil, nil }
func (s *silent) Outbox(context.Context, int64, int) (store.OutboxPage, error) {
	page := store.OutboxPage{Last: 7}
	if row := s.rows.Load(); row != nil {
		page.Rows = []store.OutboxRow{*row}
	}
	return page, nil
}

// A call waits as long as it wants to, and ends at once with an event, with the end of the server, and with its client.
func TestFeedWaits(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(s *silent, drain chan struct{}, gone func())
		after  time.Duration
		events int
	}{
		"nothing":    {func(*silent, chan struct{}, func()) {}, MaxWait, 0},
		"the server": {func(_ *silent, drain chan struct{}, _ func()) { close(drain) }, time.Second, 0},
		"the client": {func(_ *silent, _ chan struct{}, gone func()) { gone() }, time.Second, 0},
		"an event": {func(s *silent, _ chan struct{}, _ func()) {
			s.rows.Store(&store.OutboxRow{Seq: 8, ID: "e", Type: store.EventContact, Contact: "c"})
			close(s.news)
		}, time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, drain := &silent{news: make(chan struct{})}, make(chan struct{})
				a := &API{Store: s, Draining: drain, Turns: make(chan struct{}, 1)}
				ctx, gone := context.WithCancel(t.Context())
				defer gone()
				time.AfterFunc(time.Second, func() { c.end(s, drain, gone) })
				began := time.Now()
				f, err := a.feed(ctx, &Request{
					Query: url.Values{"after": {"01234567-7"}, "wait": {"25"}}, Read: func(context.Context, string) error { return nil }, Works: func(context.Context) error { return nil },
				})
				if took := time.Since(began); err != nil || took != c.after || len(f.Events) != c.events || f.Gap || f.Cursor == "" {
					t.Errorf("after %v: %+v %v", took, f, err)
				}
			})
		})
	}
}
