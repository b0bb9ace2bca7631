package storetest

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/store"
)

func chatDeeds() []deed {
	return []deed{
		{"Open", 14, false, command(func(w *world, at scene) store.Command {
			return store.Open{Contact: at.contact, Human: w.rng.IntN(2) == 0}
		})},
		{"Append", 14, false, command(func(_ *world, at scene) store.Command { return text(at.conv.ID, at.actor, "hello") })},
		{"Append", 8, false, command(func(_ *world, at scene) store.Command {
			msg := text(at.conv.ID, at.actor, "note")
			msg.Note = true
			return msg
		})},
		{"BotTurn", 12, false, command(func(w *world, at scene) store.Command {
			turn := store.BotTurn{
				Conv: at.conv.ID, Turn: w.turnOf(at.conv.ID), Say: []store.Say{{Body: "hi"}}, Handoff: w.rng.IntN(2) == 0, Note: "summary", Failed: w.rng.IntN(4) == 0,
			}
			if !turn.Failed && w.rng.IntN(2) == 0 {
				turn.Attributes = map[string]string{"learnt": fmt.Sprint(w.number())}
			}
			return turn
		})},
		{"TellTarget", 12, false, command(func(_ *world, at scene) store.Command { return store.TellTarget{Conv: at.conv.ID} })},
		{"AcceptTurn", 4, false, command(func(w *world, at scene) store.Command {
			return store.AcceptTurn{Turn: w.turnOf(at.conv.ID), Until: w.now().Add(time.Hour).UnixMilli()}
		})},
		{"LeftMessage", 4, false, command(func(_ *world, at scene) store.Command { return leave(at.contact, "later") })},
		{"Move", 48, false, command(func(w *world, at scene) store.Command {
			return store.Move{
				Conv: at.conv.ID, By: at.actor, To: pick(w.rng, w.agents).ID, Group: w.group, Force: w.rng.IntN(4) == 0, Rev: at.conv.Rev * int64(w.rng.IntN(2)),
				Trigger: pick(w.rng, []store.Trigger{
					store.Handoff, store.TakeOver, store.TakeOver, store.Assign, store.TransferAgent, store.TransferGroup, store.Return, store.OwnerGone, store.NoAnswer,
					store.CustomerClose, store.AgentClose, store.Idle, store.Abandon, store.Block, store.ReopenToQueue, store.ReopenToBot,
				}),
			}
		})},
		{"MakeOffer", 6, false, command(func(w *world, at scene) store.Command {
			return store.MakeOffer{Conv: at.conv.ID, From: at.actor, To: pick(w.rng, w.agents).ID, Note: "please", Rev: at.conv.Rev * int64(w.rng.IntN(2)), Expires: w.now().Add(time.Hour).UnixMilli()}
		})},
		{"AcceptOffer", 6, false, command(func(_ *world, at scene) store.Command { return store.AcceptOffer{Conv: at.conv.ID, By: at.actor} })},
		{"EndOffer", 3, false, command(func(w *world, at scene) store.Command {
			return store.EndOffer{Conv: at.conv.ID, ID: w.offerOf(at.conv.ID), End: store.OfferDeclined}
		})},
		{"Warn", 3, false, command(func(_ *world, at scene) store.Command {
			return store.Warn{Conv: at.conv.ID, Seq: at.conv.LastSeq, Body: "still there?"}
		})},
		{"Leave", 3, false, command(func(w *world, at scene) store.Command {
			return store.Leave{Conv: at.conv.ID, At: int64(w.rng.IntN(2)) * w.now().UnixMilli()}
		})},
		{"Rate", 8, false, command(func(w *world, at scene) store.Command {
			return store.Rate{Conv: at.conv.ID, By: at.actor, Score: 1 + w.rng.IntN(store.MaxScore), Comment: fmt.Sprint("comment ", w.number())}
		})},
		{"Visited", 2, false, command(func(w *world, at scene) store.Command {
			return store.Visited{Contact: at.contact.ID, Facts: store.Facts{Page: "https://shop.example/a", At: w.now().UnixMilli()}}
		})},
	}
}

func staffDeeds() []deed {
	return []deed{
		{"Arrange", 7, false, command(func(w *world, at scene) store.Command {
			p, _ := store.ParsePriority(pick(w.rng, store.Priorities()))
			return store.Arrange{Conv: at.conv.ID, By: at.actor, Priority: p}
		})},
		{"Relax", 7, false, command(func(_ *world, at scene) store.Command {
			return store.Relax{Conv: at.conv.ID, Rev: at.conv.Rev, Missed: []string{"returns"}}
		})},
		{"Snooze", 14, false, command(func(w *world, at scene) store.Command {
			until := int64(w.rng.IntN(2)) * (w.now().UnixMilli() + time.Hour.Milliseconds())
			return store.Snooze{Conv: at.conv.ID, By: at.actor, Until: until, Force: w.rng.IntN(4) == 0}
		})},
		{"Tag", 8, false, command(func(w *world, at scene) store.Command {
			tags := []string{"vip", "VIP", "refund", "late"}
			c := store.Tag{Conv: at.conv.ID, By: at.actor, Add: []string{pick(w.rng, tags), pick(w.rng, tags)}, Remove: []string{pick(w.rng, tags)}}
			if w.rng.IntN(4) == 0 { // too many: nothing of it stays
				for i := range store.MaxTags + 1 {
					c.Add = append(c.Add, fmt.Sprint("tag", i))
				}
			}
			return c
		})},
		{"Audit", 1, false, command(func(_ *world, at scene) store.Command {
			return store.Audit{Who: at.agent.Actor(), Action: store.AuditSearch, Target: "all"}
		})},
		{"SetStatus", 2, false, call(func(w *world, at scene) (func() error, func()) {
			status := pick(w.rng, store.Statuses())
			return func() error { return w.SetStatus(w.t.Context(), at.agent.ID, status, true) }, func() {}
		})},
		{"SetGone", 2, false, call(func(w *world, at scene) (func() error, func()) {
			gone := int64(w.rng.IntN(2)) * w.now().UnixMilli()
			return func() error { return w.SetGone(w.t.Context(), at.agent.ID, gone) }, func() {}
		})},
		{"SaveMarks", 3, false, call(func(w *world, at scene) (func() error, func()) {
			far := func() store.Mark { return store.Mark{Delivered: uint64(w.rng.IntN(20)), Read: uint64(w.rng.IntN(20))} }
			marks := []store.ConvMarks{{Conv: at.conv.ID, Marks: store.Marks{Customer: far(), Staff: far()}}}
			return func() error { return w.SaveMarks(w.t.Context(), marks) }, func() {}
		})},
		{"AddMember", 1, false, call(func(w *world, at scene) (func() error, func()) {
			return func() error { return w.AddMember(w.t.Context(), w.group, at.agent.ID) }, func() {}
		})},
		{"SetMembers", 1, false, call(func(w *world, at scene) (func() error, func()) {
			return func() error { return w.SetMembers(w.t.Context(), w.group, []string{at.agent.ID}) }, func() {}
		})},
		{"UpdateAgent", 2, false, call(func(w *world, at scene) (func() error, func()) {
			a := at.agent
			a.Role, a.Capacity = "agent", 1+w.rng.IntN(5)
			return func() error { return w.UpdateAgent(w.t.Context(), a) }, func() {}
		})},
		{"SaveFilter", 3, true, call(func(w *world, at scene) (func() error, func()) {
			f := store.SavedFilter{Name: pick(w.rng, []string{"mine", "late"}), Fields: map[string]string{"tag": fmt.Sprint(w.number())}}
			return func() error { return w.SaveFilter(w.t.Context(), at.agent.ID, f) }, func() {
				if w.filters[at.agent.ID] == nil {
					w.filters[at.agent.ID] = make(map[string]string)
				}
				w.filters[at.agent.ID][f.Name] = f.Fields["tag"]
			}
		})},
		{"DropFilter", 2, true, call(func(w *world, at scene) (func() error, func()) {
			name := pick(w.rng, []string{"mine", "late"})
			return func() error { return w.DropFilter(w.t.Context(), at.agent.ID, name) }, func() { delete(w.filters[at.agent.ID], name) }
		})},
	}
}

// keptDeeds look whether what is kept twice agrees, and remove what is old.
func keptDeeds() []deed {
	right := func(what string, count func() (int, error)) func() error {
		return func() error {
			n, err := count()
			if err == nil && n != 0 {
				err = fmt.Errorf("%d %s were wrong", n, what)
			}
			return err
		}
	}
	return []deed{
		{"Reconcile", 2, false, call(func(w *world, _ scene) (func() error, func()) {
			return right("counters of agents", func() (int, error) { return w.Reconcile(w.t.Context()) }), func() {}
		})},
		{"Recount", 1, false, call(func(w *world, _ scene) (func() error, func()) {
			return right("numbers of the reports", func() (int, error) { return w.Recount(w.t.Context()) }), func() {}
		})},
		{"DropClosed", 2, true, call(func(w *world, _ scene) (func() error, func()) {
			before := w.now().Add(-48 * time.Hour).UnixMilli()
			return func() error {
				return w.more(func() (store.Dropped, error) { return w.DropClosed(w.t.Context(), w.site.ID, before, 7) })
			}, func() {}
		})},
		{"EraseMore", 2, true, call(func(w *world, _ scene) (func() error, func()) {
			return func() error { return w.more(func() (store.Dropped, error) { return w.EraseMore(w.t.Context(), 7) }) }, func() {}
		})},
	}
}

// more removes conversations until none of them is there in part.
func (w *world) more(drop func() (store.Dropped, error)) error {
	for {
		if d, err := drop(); err != nil || !d.More {
			return err
		}
	}
}

// turnOf returns the id of a turn of a conversation, perhaps of one that is over or of another conversation.
func (w *world) turnOf(conv string) string {
	pending, err := w.Cold().BotPending(w.t.Context())
	w.must(err)
	for _, p := range pending {
		w.turns[p.Turn.ID] = p.Turn.Conv
	}
	for id, of := range w.turns {
		if of == conv || w.rng.IntN(10) == 0 {
			return id
		}
	}
	return "none"
}

func fileDeeds() []deed {
	return []deed{
		{"AddAttachment", 5, true, call(func(w *world, at scene) (func() error, func()) {
			a := store.Attachment{Conv: at.conv.ID, Uploader: at.contact.Actor(), Name: "photo.png", Type: "image/png", Size: 1000, Storage: uuid.NewString(), State: store.FileChecking}
			return func() (err error) {
				a, err = w.rig.AddAttachment(w.t.Context(), a, store.Quota{Loose: 3})
				return over(err)
			}, func() { w.files = append(w.files, a) }
		})},
		{"DecideAttachment", 3, false, call(func(w *world, _ scene) (func() error, func()) {
			id, ok := w.anyFile().ID, w.rng.IntN(4) > 0
			return func() error {
				_, err := w.rig.DecideAttachment(w.t.Context(), id, ok)
				return err
			}, func() {}
		})},
		{"Append", 4, false, command(func(w *world, _ scene) store.Command {
			a := w.anyFile()
			msg := text(a.Conv, a.Uploader, "")
			msg.Attachments = []string{a.ID}
			return msg
		})},
		{"DropLoose", 1, false, call(func(w *world, _ scene) (func() error, func()) {
			before := w.now().Add(-24 * time.Hour).UnixMilli()
			return func() error {
				_, err := w.DropLoose(w.t.Context(), before, 3)
				return err
			}, func() {}
		})},
	}
}

// over makes a conflict of a full quota.
func over(err error) error {
	if err == store.ErrQuota {
		return store.ErrConflict
	}
	return err
}

func (w *world) anyFile() store.Attachment {
	if len(w.files) == 0 {
		return store.Attachment{ID: "none", Conv: "none", Uploader: system}
	}
	return pick(w.rng, w.files[max(0, len(w.files)-5):])
}
