package hub

import (
	"context"
	"slices"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Links makes short-lived addresses of files. Any goroutine may call it.
type Links interface {
	// Link returns the address of a file for one side, and for how long at least the address works.
	Link(id string, side store.Side) (path string, life time.Duration)
}

// FileOf returns a file as clients see it.
func FileOf(a *store.Attachment) proto.File {
	return proto.File{ID: a.ID, Name: a.Name, Type: a.Type, Size: a.Size, W: a.Width, H: a.Height, State: a.State}
}

// fileLinks answers with the addresses of those files that the caller may see.
func (s *Session) fileLinks(cmd proto.Command, who identity, p *proto.FileLinks) {
	links := s.hub.o.Links
	if links == nil {
		s.fail(cmd, &proto.Error{Code: proto.CodeForbidden, Text: "this server keeps no files"})
		return
	}
	s.read(cmd, who, func(ctx context.Context, r store.Reader) {
		files, err := r.Attachments(ctx, p.IDs)
		if err != nil {
			s.fail(cmd, s.hub.readError(err))
			return
		}
		side := sideOf(who.actor.Kind)
		out := proto.Links{Links: make(map[string]string), States: make(map[string]string)}
		for i := range files {
			switch a := &files[i]; {
			case !mayFetch(who, a) || s.mayRead(ctx, r, who, a.Conv) != nil:
			case a.State != store.FileReady:
				out.States[a.ID] = a.State
			default:
				path, life := links.Link(a.ID, side)
				out.Links[a.ID], out.ExpiresMS = path, life.Milliseconds()
			}
		}
		s.reply("ok", cmd, "", out)
	}, func() { s.fail(cmd, busy("too many requests are waiting")) })
}

// mayFetch reports whether a client may fetch a file. A customer may fetch the files of visible messages and its own
// uploads. Staff may fetch the files of every message and their own.
func mayFetch(who identity, a *store.Attachment) bool {
	own := a.Uploader.Is(who.actor)
	if who.actor.Kind == store.Customer {
		return a.Contact == who.actor.ID && (a.PSeq > 0 || own)
	}
	return who.actor.Kind == store.Agent && (a.Seq > 0 || own)
}

// fileChanged tells all who see a file that its state has changed.
func (h *Hub) fileChanged(a store.Attachment) {
	h.mu.Lock()
	var customers, agents []*Session
	if a.PSeq > 0 || a.Uploader.Kind == store.Customer {
		customers = h.sessions.contacts[a.Contact]
	}
	if e := h.queue.dir.open[a.Conv]; e != nil && a.Seq > 0 {
		agents = h.sessions.listeners(e.conv.Owner, e.conv.Owner, e, a.Conv)
	}
	if a.Uploader.Kind == store.Agent {
		for _, s := range h.sessions.agents[a.Uploader.ID] {
			if !slices.Contains(agents, s) {
				agents = append(slices.Clip(agents), s)
			}
		}
	}
	h.mu.Unlock()
	frame := proto.Event("ev.file", a.Conv, 0, FileOf(&a))
	for _, list := range [][]*Session{customers, agents} {
		for _, s := range list {
			s.ephemeral(frame)
		}
	}
}
