package front

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
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
	visitorUploads  = 16 // uploads of visitors at once
	staffUploads    = 8  // uploads of staff at once
	visitorFetches  = 32 // files being sent to visitors
	staffFetches    = 16 // files being sent to staff
	uploadsPerAgent = 3  // of staffUploads, those of one agent; a visitor has one
	fetchesPerChat  = 8  // of the fetches, those of files of one contact
	looseFiles      = 30 // files of one uploader that were not sent yet
	maxFileName     = 1 << 10
	paceBytes       = 16 << 10
)

// Fill sets the zero fields to their defaults.
func (u *Uploads) Fill() {
	for _, size := range []struct {
		value *int64
		zero  int64
	}{{&u.MaxSize, 20 << 20}, {&u.VisitorBytes, 100 << 20}, {&u.StaffBytes, 1 << 30}, {&u.SiteBytes, 10 << 30}} {
		if *size.value == 0 {
			*size.value = size.zero
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

// uploader is the customer or agent who uploads, with their limits.
type uploader struct {
	actor  store.Actor
	role   perm.Role    // of staff
	reader store.Reader // of the side that uploads
	quota  store.Quota
	atOnce int
}

// widgetUpload takes a file of a visitor, who authenticates with a token.
func (f *Front) widgetUpload(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "The upload does not say who you are."})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	contact, err := f.store.Hot().ContactByToken(ctx, auth.HashToken(token), f.o.Now())
	switch {
	case errors.Is(err, store.ErrNotFound):
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "The token is not known."})
	case errors.Is(err, store.ErrExpired):
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeTokenExpired, Text: "The token has expired."})
	case err != nil:
		f.storeProblem(w, err)
	case contact.Blocked:
		problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: "This chat is not available to you."})
	default:
		o := &f.o.Uploads
		f.upload(w, r, uploader{actor: contact.Actor(), reader: f.store.Hot(), quota: f.quota(o.VisitorBytes, o.VisitorFiles), atOnce: 1})
	}
}

// agentUpload takes a file of staff.
func (f *Front) agentUpload(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	f.upload(w, r, uploader{
		actor: s.Agent.Actor(), role: s.Agent.Role, reader: f.store.Cold(), quota: f.quota(f.o.Uploads.StaffBytes, 0), atOnce: uploadsPerAgent,
	})
}

func (f *Front) quota(bytes int64, count int) store.Quota {
	return store.Quota{Since: f.o.Now().Add(-time.Hour).UnixMilli(), Bytes: bytes, Count: count, Loose: looseFiles}
}

// refusal is an answer that says no.
type refusal struct {
	status int
	proto.Error
}

func refuse(status int, code proto.Code, text string) *refusal {
	return &refusal{status, proto.Error{Code: code, Text: text}}
}

// refuseLater is a refusal of what may be tried again after wait.
func refuseLater(status int, code proto.Code, text string, wait time.Duration) *refusal {
	return &refusal{status, *proto.Later(code, text, wait)}
}

// upload receives the body and adds the file to the conversation, where the file waits to be sent.
func (f *Front) upload(w http.ResponseWriter, r *http.Request, who uploader) {
	no := f.takeUpload(w, r, who)
	if no == nil {
		f.Counters.Uploads.Add(1)
		return
	}
	f.Counters.UploadsRefused.Add(1)
	problem(w, no.status, &no.Error)
}

func (f *Front) takeUpload(w http.ResponseWriter, r *http.Request, who uploader) *refusal {
	key := "upload " + string(who.actor.Kind) + " " + who.actor.ID
	leave, ok := f.running.Enter(key, who.atOnce, f.o.Now())
	if !ok {
		return refuseLater(http.StatusTooManyRequests, proto.CodeRateLimited, "Another file is being uploaded. One after the other, please.", time.Second)
	}
	defer leave()
	query := r.URL.Query()
	name := query.Get("name")
	if len(name) > maxFileName {
		return refuse(http.StatusBadRequest, proto.CodeBadRequest, "The name of the file is too long.")
	}
	conv, no := f.admitUpload(r, who, query.Get("conv"))
	if no != nil {
		return no
	}
	body := newPaced(w, r.Body, f.o.Uploads.Pace, f.o.Uploads.MaxTime)
	file, err := f.o.Files.Receive(r.Context(), body, name, r.ContentLength)
	if err != nil {
		return f.uploadError(err)
	}
	return f.addFile(w, r, who, conv, file)
}

// admitUpload decides whether to take a file, before any of it is read.
func (f *Front) admitUpload(r *http.Request, who uploader, id string) (store.Conversation, *refusal) {
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	conv, err := who.reader.Conversation(ctx, id)
	if err == nil && who.actor.Kind == store.Customer && conv.Contact != who.actor.ID {
		err = store.ErrNotFound
	}
	if errors.Is(err, store.ErrNotFound) {
		return conv, refuse(http.StatusNotFound, proto.CodeNotFound, "There is no such conversation for you.")
	}
	if err != nil {
		return conv, f.storeRefusal(err)
	}
	if who.actor.Kind == store.Agent && !mayWrite(who, &conv) {
		return conv, refuse(http.StatusForbidden, proto.CodeForbidden, "Another agent has this conversation.")
	}
	left, err := who.reader.Uploads(ctx, who.actor, who.quota.Since)
	if err != nil {
		return conv, f.storeRefusal(err)
	}
	if left.Over(who.quota, max(r.ContentLength, 1)) && r.ContentLength <= f.o.Uploads.MaxSize {
		return conv, overQuota()
	}
	if limit := f.o.Uploads.SiteBytes; limit > 0 && f.o.Keeper.SiteBytes(conv.Site)+max(r.ContentLength, 1) > limit {
		f.o.Logger.Warn("desk: the files of a site have reached their limit", "site", conv.Site, "limit", limit)
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
	return refuseLater(http.StatusTooManyRequests, proto.CodeRateLimited, "Too many files. Send those that wait, or try again later.", time.Minute)
}

func noRoom() *refusal {
	return refuse(http.StatusInsufficientStorage, proto.CodeUnavailable, "There is no room for files now.")
}

func (f *Front) storeRefusal(err error) *refusal {
	if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, files.ErrUnavailable) && !errors.Is(err, store.ErrBusy) && !errors.Is(err, store.ErrStopped) && !errors.Is(err, context.Canceled) {
		f.o.Logger.Error("desk: upload failed", "err", err)
	}
	return refuseLater(http.StatusServiceUnavailable, proto.CodeUnavailable, "The server cannot do this now. Try again in a moment.", time.Second)
}

// uploadError returns the answer to a file that was not received.
func (f *Front) uploadError(err error) *refusal {
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
		f.o.Logger.Error("desk: an upload was refused: there is no room", "err", err)
		return noRoom()
	case errors.Is(err, files.ErrUnavailable):
		return f.storeRefusal(err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuseLater(http.StatusRequestTimeout, proto.CodeRateLimited, "The file arrived too slowly.", time.Second)
	case errors.Is(err, files.ErrRead):
		return refuse(http.StatusBadRequest, proto.CodeBadRequest, "The file did not arrive.")
	case errors.Is(err, context.Canceled):
		return f.storeRefusal(err)
	}
	f.o.Logger.Error("desk: a file could not be stored", "err", err)
	return refuse(http.StatusInternalServerError, proto.CodeInternal, "The file could not be stored.")
}

// addFile makes the row of a file that is on the disk. Where it is unknown whether the row was made, the file stays. The
// keeper removes the file if there is no row.
func (f *Front) addFile(w http.ResponseWriter, r *http.Request, who uploader, conv store.Conversation, file files.File) *refusal {
	a := store.Attachment{
		Conv: conv.ID, Uploader: who.actor, Name: file.Name, Type: file.Type, Size: file.Size, Width: file.Width, Height: file.Height, SHA256: file.SHA256,
		Storage: file.Storage, State: store.FileReady,
	}
	if f.o.Uploads.Scanner != nil {
		a.State = store.FileChecking
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), f.within(requestTimeout))
	defer cancel()
	a, err := f.store.AddAttachment(ctx, a, who.quota)
	switch {
	case err == nil:
	case errors.Is(err, store.ErrQuota), errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrStopped):
		if err := f.o.Files.Remove(ctx, file.Storage); err != nil {
			f.o.Logger.Warn("desk: a file without a row stays for a while", "err", err)
		}
		if errors.Is(err, store.ErrQuota) {
			return overQuota()
		}
		if errors.Is(err, store.ErrNotFound) {
			return refuse(http.StatusNotFound, proto.CodeNotFound, "There is no such conversation for you.")
		}
		return f.storeRefusal(err)
	default:
		return f.storeRefusal(err)
	}
	f.o.Keeper.Added(a, conv.Site)
	answerStatus(w, http.StatusCreated, hub.FileOf(&a))
	return nil
}

// paced is a body that must keep coming: paceBytes in each stretch of time, and all of it before end.
type paced struct {
	body  io.Reader
	until func(time.Time) error // sets the deadline of reads
	pace  time.Duration
	end   time.Time
	left  int       // bytes that must still come in this stretch
	read  time.Time // when the last read ended
}

// ownTime is how long storing what came may take before it is taken off the time that the client has.
const ownTime = time.Second

func newPaced(w http.ResponseWriter, body io.Reader, pace, whole time.Duration) *paced {
	p := &paced{body: body, until: http.NewResponseController(w).SetReadDeadline, pace: pace, end: time.Now().Add(whole), read: time.Now()}
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
	if own := time.Since(p.read); own > ownTime {
		p.end = p.end.Add(own)
		p.stretch()
	}
	n, err := p.body.Read(b)
	p.read = time.Now()
	if p.left -= n; p.left <= 0 && err == nil {
		p.stretch()
	}
	return n, err
}
