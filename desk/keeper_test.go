package desk

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// yard is a database with a conversation, and a directory of files.
type yard struct {
	t     *testing.T
	db    store.Store
	files *files.Store
	dir   string
	conv  store.Conversation
	ann   store.Contact
	ahead atomic.Int64
}

func newYard(t *testing.T) *yard {
	y := &yard{t: t, dir: filepath.Join(t.TempDir(), "files")}
	place, err := files.OpenDirectory(y.dir, false)
	y.ok(err)
	y.files, err = files.Open(files.Options{Place: place, MinFree: -1})
	y.ok(err)
	path := filepath.Join(t.TempDir(), "desk.db")
	sqlitetest.Prepare(t, path)
	db, err := sqlstore.Open(testkit.Context(t), sqlstore.Options{Path: path, Now: y.now, Wait: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	y.db = db
	site, err := db.CreateSite(testkit.Context(t), store.Site{Key: "demo", Name: "Demo"})
	y.ok(err)
	y.ann, err = db.CreateVisitor(testkit.Context(t), site, store.Token{1}, time.Now().Add(time.Hour))
	y.ok(err)
	y.conv = y.do(store.Open{Contact: y.ann, Human: true}).Conv
	return y
}

func (y *yard) now() time.Time { return time.Now().Add(time.Duration(y.ahead.Load())) }

func (y *yard) ok(err error) {
	y.t.Helper()
	if err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) do(cmd store.Command) store.Outcome {
	y.t.Helper()
	done := make(chan store.Outcome, 2)
	y.db.Do(cmd, time.Now().Add(testkit.Patience), func(out store.Outcome) { done <- out })
	out := <-done
	y.ok(out.Err)
	return out
}

// file stores a file, an hour and more ago, and gives it a row if its state is not "".
func (y *yard) file(state string) store.Attachment {
	y.t.Helper()
	f, err := y.files.Receive(y.t.Context(), strings.NewReader("some text"), "x.txt", -1)
	y.ok(err)
	past := time.Now().Add(-90 * time.Minute)
	y.ok(os.Chtimes(filepath.Join(y.dir, f.Storage[:2], f.Storage), past, past))
	a := store.Attachment{Conv: y.conv.ID, Uploader: y.ann.Actor(), Name: f.Name, Type: f.Type, Size: f.Size, Storage: f.Storage, State: state}
	if state == "" {
		return a
	}
	a, err = y.db.AddAttachment(y.t.Context(), a, store.Quota{})
	y.ok(err)
	return a
}

func (y *yard) send(a store.Attachment) store.Attachment {
	y.do(store.Append{Conv: y.conv.ID, From: y.ann.Actor(), ClientID: uuid.NewString(), Attachments: []string{a.ID}})
	return a
}

func (y *yard) has(a store.Attachment) bool {
	f, err := y.files.Open(y.t.Context(), a.Storage)
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}

// What a crash left between a file and its row, what was never sent and what was refused goes; everything else stays.
func TestKeeperRemovesOrphans(t *testing.T) {
	y := newYard(t)
	k, err := files.NewKeeper(files.KeeperOptions{Store: y.db, Files: y.files, Now: y.now})
	y.ok(err)
	sent, sentChecking, orphan, old, refused := y.send(y.file(store.FileReady)), y.send(y.file(store.FileChecking)), y.file(""), y.file(store.FileReady), y.file(store.FileChecking)
	y.send(refused)
	_, err = y.db.DecideAttachment(testkit.Context(t), refused.ID, false)
	y.ok(err)
	late, err := y.files.Receive(y.t.Context(), strings.NewReader("never sent, and the disk has it for a moment only"), "x.txt", -1)
	y.ok(err)
	_, err = y.db.AddAttachment(testkit.Context(t), store.Attachment{Conv: y.conv.ID, Uploader: y.ann.Actor(), Name: "x.txt", Type: late.Type, Size: late.Size, Storage: late.Storage, State: store.FileReady}, store.Quota{})
	y.ok(err)
	y.ahead.Store(int64(25 * time.Hour))
	young := y.file(store.FileReady)
	fresh, err := y.files.Receive(y.t.Context(), strings.NewReader("its row is being made"), "x.txt", -1)
	y.ok(err)
	half := filepath.Join(y.dir, "incoming", "half")
	y.ok(os.WriteFile(half, nil, 0o600))
	past := time.Now().Add(-2 * time.Hour)
	y.ok(os.Chtimes(half, past, past))
	arriving := filepath.Join(y.dir, "incoming", "arriving")
	y.ok(os.WriteFile(arriving, nil, 0o600))
	for range files.Shards / 16 {
		y.ok(k.Round(t.Context()))
	}
	for name, c := range map[string]struct {
		a    store.Attachment
		want bool
	}{
		"sent": {sent, true}, "being checked": {sentChecking, true}, "without a row": {orphan, false}, "never sent": {old, false}, "refused": {refused, false},
		"not sent yet": {young, true}, "never sent, stored a moment ago": {store.Attachment{Storage: late.Storage}, false}, "just stored": {store.Attachment{Storage: fresh.Storage}, true},
	} {
		if got := y.has(c.a); got != c.want {
			t.Errorf("%s: there: %v", name, got)
		}
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was arriving long ago: %v", err)
	}
	if _, err := os.Stat(arriving); err != nil {
		t.Errorf("what is arriving: %v", err)
	}
	if got := k.SiteBytes(y.ann.Site); got != 3*int64(len("some text")) {
		t.Errorf("the site keeps %d bytes", got)
	}
	k.Added(store.Attachment{Size: 5}, y.ann.Site)
	if got := k.SiteBytes(y.ann.Site); got != 3*int64(len("some text"))+5 {
		t.Errorf("with one more: %d bytes", got)
	}
}

// Closed chats go when their site has kept them long enough, with their files, but not while somebody can reopen them.
// Sites keep them for ever unless they say otherwise.
func TestKeeperDropsClosedChats(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		keep   int
		reopen time.Duration
		kept   time.Duration // still there then
		gone   time.Duration // and not any more then, 0 = for ever
	}{
		"two days":                  {2, day, 2*day - time.Hour, 2*day + time.Hour},
		"never":                     {0, day, 3650 * day, 0},
		"a week, open for a month":  {7, 30 * day, 30*day - time.Hour, 30*day + time.Hour},
		"one day, never open again": {1, -1, day - time.Hour, day + time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			site, err := y.db.Cold().Site(t.Context(), y.ann.Site)
			y.ok(err)
			site.ReopenWindow, site.Settings.KeepDays = c.reopen, c.keep
			y.ok(y.db.UpdateSite(t.Context(), site))
			k, err := files.NewKeeper(files.KeeperOptions{Store: y.db, Files: y.files, Now: y.now, Logger: slog.New(slog.DiscardHandler)})
			y.ok(err)
			f := y.send(y.file(store.FileReady))
			open, err := y.db.CreateVisitor(t.Context(), site, store.Token{2}, time.Now().Add(time.Hour))
			y.ok(err)
			stays := y.do(store.Open{Contact: open, Human: true}).Conv.ID
			for range 210 { // more than one command removes
				y.do(store.Append{Conv: y.conv.ID, From: y.ann.Actor(), ClientID: uuid.NewString(), Body: "x"})
			}
			y.do(store.Move{Conv: y.conv.ID, Trigger: store.CustomerClose, By: y.ann.Actor()})
			there := func(at time.Duration, want bool) {
				t.Helper()
				y.ahead.Store(int64(at))
				y.ok(k.Round(t.Context()))
				_, err := y.db.Cold().Conversation(t.Context(), y.conv.ID)
				if (err == nil) != want || y.has(f) != want {
					t.Errorf("after %v: %v, its file is there: %v; want %v", at, err, y.has(f), want)
				}
				if _, err := y.db.Cold().Conversation(t.Context(), stays); err != nil {
					t.Errorf("after %v an open chat: %v", at, err)
				}
			}
			there(c.kept, true)
			if c.gone != 0 {
				there(c.gone, false)
				if n := k.SiteBytes(site.ID); n != 0 {
					t.Errorf("%d bytes are still counted", n)
				}
			}
		})
	}
}

// endless is a store that always has more to remove.
type endless struct {
	store.Store
	calls, rows int
}

func (e *endless) DropClosed(_ context.Context, _ string, _ int64, limit int) (store.Dropped, error) {
	e.calls, e.rows = e.calls+1, max(e.rows, limit)
	return store.Dropped{More: true}, nil
}

// However much has to go, one command removes little and one round ends.
func TestKeeperDropsABoundedNumber(t *testing.T) {
	y := newYard(t)
	site, err := y.db.Cold().Site(t.Context(), y.ann.Site)
	y.ok(err)
	site.Settings.KeepDays = 1
	y.ok(y.db.UpdateSite(t.Context(), site))
	e := &endless{Store: y.db}
	k, err := files.NewKeeper(files.KeeperOptions{Store: e, Files: y.files, Now: y.now})
	y.ok(err)
	y.ok(k.Round(t.Context()))
	if e.calls == 0 || e.calls > 1000 || e.rows == 0 || e.rows > 500 {
		t.Errorf("%d commands of %d rows in one round", e.calls, e.rows)
	}
}

// scanFunc is a scanner without a place.
type scanFunc func(store.Attachment) (bool, error)

func (f scanFunc) Scan(_ context.Context, _ string, a store.Attachment) (bool, error) { return f(a) }

// A scanner that fails, or panics, on one file is asked again, and does not keep the others waiting.
func TestKeeperScansAgain(t *testing.T) {
	y := newYard(t)
	first, second, third := y.send(y.file(store.FileChecking)), y.send(y.file(store.FileChecking)), y.send(y.file(store.FileChecking))
	decided := make(chan store.Attachment, 3)
	_, stop := y.db.Follow(func(part *store.Fed) {
		for _, a := range part.Files {
			decided <- a
		}
	})
	defer stop()
	asked := make(map[string]int)
	k, err := files.NewKeeper(files.KeeperOptions{
		Store: y.db, Files: y.files, ScanRetry: time.Millisecond,
		Scanner: scanFunc(func(a store.Attachment) (bool, error) {
			asked[a.ID]++
			switch {
			case a.ID == first.ID && asked[a.ID] < 3:
				return false, errors.New("the scanner is away")
			case a.ID == second.ID && asked[a.ID] < 2:
				panic("the scanner")
			}
			return a.ID != third.ID, nil
		}),
	})
	y.ok(err)
	y.ok(k.Start(testkit.Context(t)))
	var got []string
	for range 3 {
		a := testkit.Receive(t, "a decision", decided)
		got = append(got, a.ID+" "+a.State)
	}
	k.Stop()
	if got[0] != third.ID+" "+store.FileRefused || !slices.Contains(got, first.ID+" "+store.FileReady) || !slices.Contains(got, second.ID+" "+store.FileReady) {
		t.Errorf("%v", got)
	}
	if y.has(third) || !y.has(first) {
		t.Error("the refused file is there, or the other one is not")
	}
}

func TestKeeperOptions(t *testing.T) {
	if _, err := files.NewKeeper(files.KeeperOptions{}); err == nil || !strings.Contains(err.Error(), "required") {
		t.Error(err)
	}
}

// awayPlace is a place that cannot be used.
type awayPlace struct {
	files.Place
	calls int
}

func (p *awayPlace) Remove(context.Context, ...string) error {
	p.calls++
	return files.ErrUnavailable
}

func (p *awayPlace) Local(context.Context, string) (string, func(), error) {
	p.calls++
	return "", nil, files.ErrUnavailable
}

// away replaces the place of files by one that cannot be used.
func (y *yard) away(place *awayPlace) *files.Store {
	var err error
	place.Place, err = files.OpenDirectory(y.dir, false)
	y.ok(err)
	s, err := files.Open(files.Options{Place: place, MinFree: -1})
	y.ok(err)
	return s
}

// While files cannot be removed, the rows of old chats go all the same, one error says why, and the files go when they can.
func TestKeeperWithoutItsFiles(t *testing.T) {
	y := newYard(t)
	site, err := y.db.Cold().Site(t.Context(), y.ann.Site)
	y.ok(err)
	site.Settings.KeepDays, site.ReopenWindow = 1, -1
	y.ok(y.db.UpdateSite(t.Context(), site))
	sent := y.send(y.file(store.FileReady))
	first, ann := y.conv, y.ann
	y.ann, err = y.db.CreateVisitor(t.Context(), site, store.Token{2}, time.Now().Add(time.Hour))
	y.ok(err)
	y.conv = y.do(store.Open{Contact: y.ann, Human: true}).Conv
	old := y.file(store.FileReady) // of a chat that stays, and never sent
	y.conv, y.ann = first, ann
	y.do(store.Move{Conv: y.conv.ID, Trigger: store.CustomerClose, By: y.ann.Actor()})
	y.ahead.Store(int64(48 * time.Hour))
	place := new(awayPlace)
	k, err := files.NewKeeper(files.KeeperOptions{Store: y.db, Files: y.away(place), Now: y.now, Logger: slog.New(slog.DiscardHandler)})
	y.ok(err)
	if err := k.Round(t.Context()); !errors.Is(err, files.ErrUnavailable) || place.calls != 1 {
		t.Errorf("%v after %d calls", err, place.calls)
	}
	if _, err := y.db.Cold().Conversation(t.Context(), y.conv.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the chat: %v", err)
	}
	if left, err := y.db.Cold().Attachments(t.Context(), []string{sent.ID, old.ID}); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if !y.has(sent) || !y.has(old) {
		t.Error("the place that is away has removed files")
	}
	k, err = files.NewKeeper(files.KeeperOptions{Store: y.db, Files: y.files, Now: y.now})
	y.ok(err)
	for range files.Shards / 16 {
		y.ok(k.Round(t.Context()))
	}
	if y.has(sent) || y.has(old) {
		t.Error("files without rows stay")
	}
}

// A scanner is not asked about files that cannot be reached, and one attempt is enough to know that they cannot.
func TestKeeperScansNothingThatIsAway(t *testing.T) {
	y := newYard(t)
	a, b := y.send(y.file(store.FileChecking)), y.send(y.file(store.FileChecking))
	place, said := new(awayPlace), new(testkit.Output)
	k, err := files.NewKeeper(files.KeeperOptions{
		Store: y.db, Files: y.away(place), Logger: slog.New(slog.NewTextHandler(said, nil)),
		Scanner: scanFunc(func(store.Attachment) (bool, error) { t.Error("asked"); return false, nil }),
	})
	y.ok(err)
	y.ok(k.Start(testkit.Context(t)))
	testkit.Eventually(t, "the log says why", func() bool { return strings.Contains(said.String(), "could not be scanned") })
	k.Stop()
	if place.calls != 1 {
		t.Errorf("%d attempts", place.calls)
	}
	if left, err := y.db.Cold().Checking(t.Context(), 10); err != nil || len(left) != 2 {
		t.Errorf("%v of %s and %s, %v", left, a.ID, b.ID, err)
	}
}
