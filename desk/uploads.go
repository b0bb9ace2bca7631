package desk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Uploads bound the files that a Desk takes. Zero fields mean their defaults; sizes are bytes.
type Uploads struct {
	MaxSize      int64         // of one file, default 20 MiB
	VisitorBytes int64         // of one visitor in an hour, default 100 MiB
	VisitorFiles int           // of one visitor in an hour, default 100
	StaffBytes   int64         // of one agent in an hour, default 1 GiB
	SiteBytes    int64         // of all that a site keeps, default 10 GiB; negative: no limit
	MinFree      int64         // that must stay free on the disk, default 256 MiB; negative: not checked
	Types        []string      // media types that are taken, by content; default files.Types()
	Scanner      files.Scanner // decides whether a file may be handed out, after it was sent; default none: all are
	Pace         time.Duration // in which at least 16 KiB of a file have to arrive, default 10 s
	MaxTime      time.Duration // for a whole file, default 5 min
	Loose        time.Duration // how long a file may wait to be sent, default 24 h
}

const (
	visitorUploads  = 16 // of httpWorkers, uploads of visitors at once
	staffUploads    = 8  // of httpWorkers, uploads of staff at once
	visitorFetches  = 32 // of httpWorkers, files being sent to visitors
	staffFetches    = 16 // of httpWorkers, files being sent to staff
	uploadsPerAgent = 3  // of staffUploads, those of one agent; a visitor has one
	fetchesPerChat  = 8  // of the fetches, those of files of one contact
	looseFiles      = 30 // files of one uploader that were not sent yet
	maxFileName     = 1 << 10
	paceBytes       = 16 << 10
)

func (u *Uploads) fill() {
	for _, f := range []struct {
		value *int64
		zero  int64
	}{{&u.MaxSize, 20 << 20}, {&u.VisitorBytes, 100 << 20}, {&u.StaffBytes, 1 << 30}, {&u.SiteBytes, 10 << 30}} {
		if *f.value == 0 {
			*f.value = f.zero
		}
	}
	if u.VisitorFiles == 0 {
		u.VisitorFiles = 100
	}
	if u.Pace == 0 {
		u.Pace = 10 * time.Second
	}
	if u.MaxTime == 0 {
		u.MaxTime = 5 * time.Minute
	}
}

// fileSide is the part of a Desk that handles files.
type fileSide struct {
	store  *files.Store
	keeper *files.Keeper
	links  *files.Links

	uploads, staffUploads, fetches, staffFetches chan struct{} // places

	running shares // uploads by uploader, and fetches by contact
}

// openFiles opens the directory of the files. Call it when the store is open and before the hub is made.
func (d *Desk) openFiles(ctx context.Context) error {
	f, o := &d.files, &d.o.Uploads
	f.uploads, f.staffUploads = make(chan struct{}, visitorUploads), make(chan struct{}, staffUploads)
	f.fetches, f.staffFetches = make(chan struct{}, visitorFetches), make(chan struct{}, staffFetches)
	key, err := d.store.Secret(ctx, "files")
	if err != nil {
		return err
	}
	f.links = files.NewLinks(key, d.o.Now)
	f.store, err = files.Open(files.Options{Dir: datadir.Files(d.o.DataDir), MaxSize: o.MaxSize, MinFree: o.MinFree, Types: o.Types})
	if err != nil {
		return err
	}
	f.keeper, err = files.NewKeeper(files.KeeperOptions{
		Store: d.store, Files: f.store, Scanner: o.Scanner, Changed: func(a store.Attachment) { d.hub.FileChanged(a) },
		Loose: o.Loose, Logger: d.o.Logger, Now: d.o.Now,
	})
	return err
}

// shares counts what runs for one name.
type shares struct {
	mu sync.Mutex
	n  map[string]int
}

// take adds one unless there are limit already.
func (s *shares) take(name string, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[name] >= limit {
		return false
	}
	if s.n == nil {
		s.n = make(map[string]int)
	}
	s.n[name]++
	return true
}

func (s *shares) give(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[name]--; s.n[name] == 0 {
		delete(s.n, name)
	}
}

// uploader is the customer or agent who uploads, with their limits.
type uploader struct {
	actor  store.Actor
	role   perm.Role    // of staff
	reader store.Reader // of the side that uploads
	quota  store.Quota
	atOnce int
}

// widgetUpload takes a file of a visitor, who authenticates with a token.
func (d *Desk) widgetUpload(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "The upload does not say who you are."})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.o.within(requestTimeout))
	defer cancel()
	contact, err := d.store.Hot().ContactByToken(ctx, auth.HashToken(token), d.o.Now())
	switch {
	case errors.Is(err, store.ErrNotFound):
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "The token is not known."})
	case errors.Is(err, store.ErrExpired):
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeTokenExpired, Text: "The token has expired."})
	case err != nil:
		d.storeProblem(w, err)
	case contact.Blocked:
		problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: "This chat is not available to you."})
	default:
		o := &d.o.Uploads
		d.upload(w, r, uploader{actor: contact.Actor(), reader: d.store.Hot(), quota: d.quota(o.VisitorBytes, o.VisitorFiles), atOnce: 1})
	}
}

// agentUpload takes a file of staff.
func (d *Desk) agentUpload(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	d.upload(w, r, uploader{
		actor: s.Agent.Actor(), role: s.Agent.Role, reader: d.store.Cold(), quota: d.quota(d.o.Uploads.StaffBytes, 0), atOnce: uploadsPerAgent,
	})
}

func (d *Desk) quota(bytes int64, count int) store.Quota {
	return store.Quota{Since: d.o.Now().Add(-time.Hour).UnixMilli(), Bytes: bytes, Count: count, Loose: looseFiles}
}

// refusal is an answer that says no.
type refusal struct {
	status int
	proto.Error
}

func refuse(status int, code proto.Code, text string) *refusal {
	return &refusal{status, proto.Error{Code: code, Text: text}}
}

func (r *refusal) later(ms int64) *refusal {
	r.RetryMS = ms
	return r
}

// upload receives the body and adds the file to the conversation, where the file waits to be sent.
func (d *Desk) upload(w http.ResponseWriter, r *http.Request, who uploader) {
	no := d.takeUpload(w, r, who)
	if no == nil {
		d.counters.uploads.Add(1)
		return
	}
	d.counters.uploadsRefused.Add(1)
	problem(w, no.status, &no.Error)
}

func (d *Desk) takeUpload(w http.ResponseWriter, r *http.Request, who uploader) *refusal {
	key := "upload " + string(who.actor.Kind) + " " + who.actor.ID
	if !d.files.running.take(key, who.atOnce) {
		return refuse(http.StatusTooManyRequests, proto.CodeRateLimited, "Another file is being uploaded. One after the other, please.").later(1000)
	}
	defer d.files.running.give(key)
	query := r.URL.Query()
	name := query.Get("name")
	if len(name) > maxFileName {
		return refuse(http.StatusBadRequest, proto.CodeBadRequest, "The name of the file is too long.")
	}
	conv, no := d.admitUpload(r, who, query.Get("conv"))
	if no != nil {
		return no
	}
	body := newPaced(w, r.Body, d.o.Uploads.Pace, d.o.Uploads.MaxTime)
	file, err := d.files.store.Receive(body, name, r.ContentLength)
	if err != nil {
		return d.uploadError(err)
	}
	return d.addFile(w, r, who, conv, file)
}

// admitUpload decides whether to take a file, before any of it is read.
func (d *Desk) admitUpload(r *http.Request, who uploader, id string) (store.Conversation, *refusal) {
	ctx, cancel := context.WithTimeout(r.Context(), d.o.within(requestTimeout))
	defer cancel()
	conv, err := who.reader.Conversation(ctx, id)
	if err == nil && who.actor.Kind == store.Customer && conv.Contact != who.actor.ID {
		err = store.ErrNotFound
	}
	if errors.Is(err, store.ErrNotFound) {
		return conv, refuse(http.StatusNotFound, proto.CodeNotFound, "There is no such conversation for you.")
	}
	if err != nil {
		return conv, d.storeRefusal(err)
	}
	if who.actor.Kind == store.Agent && !mayWrite(who, &conv) {
		return conv, refuse(http.StatusForbidden, proto.CodeForbidden, "Another agent has this conversation.")
	}
	left, err := who.reader.Uploads(ctx, who.actor, who.quota.Since)
	if err != nil {
		return conv, d.storeRefusal(err)
	}
	if left.Over(who.quota, max(r.ContentLength, 1)) && r.ContentLength <= d.o.Uploads.MaxSize {
		return conv, overQuota()
	}
	if limit := d.o.Uploads.SiteBytes; limit > 0 && d.files.keeper.SiteBytes(conv.Site)+max(r.ContentLength, 1) > limit {
		d.o.Logger.Warn("desk: the files of a site have reached their limit", "site", conv.Site, "limit", limit)
		return conv, noRoom()
	}
	return conv, nil
}

// mayWrite reports whether an agent may write into a conversation. An agent may, unless another one serves it. In the
// conversation of another agent, permission allows notes.
func mayWrite(who uploader, c *store.Conversation) bool {
	return c.State != store.Assigned || c.Owner.Is(who.actor) || who.role.Can(perm.Whisper) || who.role.Can(perm.Override)
}

func overQuota() *refusal {
	return refuse(http.StatusTooManyRequests, proto.CodeRateLimited, "Too many files. Send those that wait, or try again later.").later(time.Minute.Milliseconds())
}

func noRoom() *refusal {
	return refuse(http.StatusInsufficientStorage, proto.CodeUnavailable, "There is no room for files now.")
}

func (d *Desk) storeRefusal(err error) *refusal {
	if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrBusy) && !errors.Is(err, store.ErrStopped) && !errors.Is(err, context.Canceled) {
		d.o.Logger.Error("desk: upload failed", "err", err)
	}
	return refuse(http.StatusServiceUnavailable, proto.CodeUnavailable, "The server cannot do this now. Try again in a moment.").later(1000)
}

// uploadError returns the answer to a file that was not received.
func (d *Desk) uploadError(err error) *refusal {
	switch {
	case errors.Is(err, files.ErrEmpty):
		return refuse(http.StatusBadRequest, proto.CodeBadRequest, "The file is empty.")
	case errors.Is(err, files.ErrTooLarge):
		return refuse(http.StatusRequestEntityTooLarge, proto.CodeTooLarge, "The file is too large.")
	case errors.Is(err, files.ErrType):
		return refuse(http.StatusUnsupportedMediaType, proto.CodeBadRequest, "Files of this type are not taken.")
	case errors.Is(err, files.ErrDamaged):
		return refuse(http.StatusUnsupportedMediaType, proto.CodeBadRequest, "The picture is damaged or too large.")
	case errors.Is(err, files.ErrFull):
		d.o.Logger.Error("desk: an upload was refused: the disk is full", "err", err)
		return noRoom()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, proto.CodeRateLimited, "The file arrived too slowly.").later(1000)
	case errors.Is(err, files.ErrRead):
		return refuse(http.StatusBadRequest, proto.CodeBadRequest, "The file did not arrive.")
	}
	d.o.Logger.Error("desk: a file could not be stored", "err", err)
	return refuse(http.StatusInternalServerError, proto.CodeInternal, "The file could not be stored.")
}

// addFile makes the row of a file that is on the disk. Where it is unknown whether the row was made, the file stays. The
// keeper removes the file if there is no row.
func (d *Desk) addFile(w http.ResponseWriter, r *http.Request, who uploader, conv store.Conversation, f files.File) *refusal {
	a := store.Attachment{
		Conv: conv.ID, Uploader: who.actor, Name: f.Name, Type: f.Type, Size: f.Size, Width: f.Width, Height: f.Height, SHA256: f.SHA256,
		Storage: f.Storage, State: store.FileReady,
	}
	if d.o.Uploads.Scanner != nil {
		a.State = store.FileChecking
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), d.o.within(requestTimeout))
	defer cancel()
	a, err := d.store.AddAttachment(ctx, a, who.quota)
	switch {
	case err == nil:
	case errors.Is(err, store.ErrQuota), errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrStopped):
		if err := d.files.store.Remove(f.Storage); err != nil {
			d.o.Logger.Warn("desk: a file without a row stays for a while", "err", err)
		}
		if errors.Is(err, store.ErrQuota) {
			return overQuota()
		}
		if errors.Is(err, store.ErrNotFound) {
			return refuse(http.StatusNotFound, proto.CodeNotFound, "There is no such conversation for you.")
		}
		return d.storeRefusal(err)
	default:
		return d.storeRefusal(err)
	}
	d.files.keeper.Added(a, conv.Site)
	answerStatus(w, http.StatusCreated, hub.FileOf(&a))
	return nil
}

// paced is a body that must keep coming: paceBytes in each stretch of time, and all of it before end.
type paced struct {
	body  io.Reader
	until func(time.Time) error // sets the deadline of reads
	pace  time.Duration
	end   time.Time
	left  int // bytes that must still come in this stretch
}

func newPaced(w http.ResponseWriter, body io.Reader, pace, whole time.Duration) *paced {
	p := &paced{body: body, until: http.NewResponseController(w).SetReadDeadline, pace: pace, end: time.Now().Add(whole)}
	p.stretch()
	return p
}

func (p *paced) stretch() {
	p.left = paceBytes
	by := time.Now().Add(p.pace)
	if p.end.Before(by) {
		by = p.end
	}
	_ = p.until(by) // a server without deadlines has its own
}

// Read implements io.Reader. A body that is too slow ends with os.ErrDeadlineExceeded.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	if p.left -= n; p.left <= 0 && err == nil {
		p.stretch()
	}
	return n, err
}
