package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
)

// check compares what the store keeps in several places, and with what it was asked for.
func (w *world) check() {
	w.t.Helper()
	alive := w.alive()
	for id, c := range alive {
		w.verifyConv(id)
		if _, err := w.Cold().Contact(w.t.Context(), c.Contact); err != nil && !w.erased[c.Contact] {
			w.t.Errorf("conversation %s (%s) is of contact %s: %v", id, c.State, c.Contact, err)
		}
		if m := c.Marks; m.Customer.Read > m.Customer.Delivered || m.Customer.Delivered > c.LastPSeq || m.Staff.Read > m.Staff.Delivered || m.Staff.Delivered > c.LastSeq {
			w.t.Errorf("%s: marks %+v of %d and %d events", id, m, c.LastPSeq, c.LastSeq)
		}
	}
	w.checkOutbox(alive)
	w.checkKept()
	w.checkMails(alive)
	for what, count := range map[string]func() (int, error){
		"counters of agents":     func() (int, error) { return w.Reconcile(w.t.Context()) },
		"numbers of the reports": func() (int, error) { return w.Recount(w.t.Context()) },
	} {
		if n, err := count(); n != 0 || err != nil {
			w.t.Errorf("%d %s were wrong, %v", n, what, err)
		}
	}
}

// alive returns the conversations that are there.
func (w *world) alive() map[string]store.Conversation {
	w.t.Helper()
	all := make(map[string]store.Conversation)
	for id := range w.convs {
		c, err := w.Cold().Conversation(w.t.Context(), id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		w.must(err)
		all[id] = c
	}
	return all
}

// checkOutbox: each event of a conversation is one row, in order, and so is each change of tags, rating and contact.
func (w *world) checkOutbox(alive map[string]store.Conversation) {
	w.t.Helper()
	told, tags, counts := make(map[string]uint64), make(map[string][]string), make(map[string]int)
	events := make(map[string][]store.Event)
	for id := range alive {
		events[id] = w.events(id, store.StaffSide)
	}
	for _, row := range w.outbox(0) {
		all, there := events[row.Conv]
		switch {
		case row.Type == store.EventContact:
			counts[string(row.Type)+row.Contact]++
		case row.Type == store.EventRated:
			counts[string(row.Type)+row.Conv]++
		case row.Type == store.EventTargetWarned, row.Type == store.EventTargetMissed: // see verifyTold
		case !there:
		case row.Type == store.EventTags:
			tags[row.Conv] = retagged(tags[row.Conv], row.Tags)
		case row.Event != told[row.Conv]+1 || row.Event > uint64(len(all)):
			w.t.Errorf("%s: event %d of %d is told after %d", row.Conv, row.Event, len(all), told[row.Conv])
		default:
			told[row.Conv] = row.Event
			if e := &all[row.Event-1]; row.Type != store.TypeOf(e) || row.Site != w.site.ID {
				w.t.Errorf("event %+v is told as %+v", e, row)
			}
		}
	}
	w.verifyTold(true)
	for id, c := range alive {
		if told[id] != c.LastSeq {
			w.t.Errorf("%s: %d of %d events are told", id, told[id], c.LastSeq)
		}
		if has, said := c.TagList(), tags[id]; len(has) > store.MaxTags || !slices.Equal(slices.Sorted(slices.Values(has)), slices.Sorted(slices.Values(said))) {
			w.t.Errorf("%s: tags %q, told %q", id, has, said)
		}
	}
	if !maps.Equal(counts, w.counts) {
		w.t.Errorf("rows about contacts and ratings: %v, want %v", counts, w.counts)
	}
}

// retagged returns tags after a change of them.
func retagged(tags []string, c store.TagChange) []string {
	tags = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return slices.Contains(c.Removed, tag) })
	return append(tags, c.Added...)
}

// checkKept looks for what was saved last.
func (w *world) checkKept() {
	w.t.Helper()
	for _, a := range w.agents {
		kept, err := w.Cold().SavedFilters(w.t.Context(), a.ID)
		w.must(err)
		got := make(map[string]string)
		for _, f := range kept {
			got[f.Name] = f.Fields["tag"]
		}
		if !maps.Equal(got, w.filters[a.ID]) {
			w.t.Errorf("filters of %s: %v, want %v", a.Login, got, w.filters[a.ID])
		}
	}
	for _, c := range w.contacts {
		if note, err := w.Cold().ContactNote(w.t.Context(), c.ID); err != nil || note != w.notes[c.ID] {
			w.t.Errorf("the note about %s is %q, want %q (%v)", c.ID, note, w.notes[c.ID], err)
		}
	}
}

// checkMails sends what waits. Whatever agents have written to customers who wait for mails is in one, and no mail is
// about a conversation that is gone.
func (w *world) checkMails(alive map[string]store.Conversation) {
	w.t.Helper()
	for {
		m, err := w.Cold().NextMail(w.t.Context())
		if errors.Is(err, store.ErrNotFound) {
			dead, err := w.Cold().DeadMails(w.t.Context())
			w.must(err)
			if len(dead) == 0 {
				break
			}
			w.must(w.RetryMail(w.t.Context(), dead[0].ID))
			continue
		}
		w.must(err)
		if _, there := alive[m.Conv]; !there && m.Conv != "" {
			w.t.Errorf("a mail about a conversation that is gone: %+v", m)
		}
		w.must(w.sent(m))
	}
	for id := range alive {
		from, waits := w.left[id]
		if !waits {
			continue
		}
		var missed []string
		for _, e := range w.events(id, store.CustomerSide) {
			in := func(m store.Mail) bool { return m.First <= e.PSeq && e.PSeq <= m.Upto }
			if said := e.Kind == store.KindText || e.Kind == store.KindFile; said && e.From.Kind == store.Agent && e.PSeq > from && !slices.ContainsFunc(w.mails[id], in) {
				missed = append(missed, fmt.Sprint(e.PSeq))
			}
		}
		if len(missed) > 0 {
			w.t.Errorf("%s: messages %s are in none of the mails %+v", id, strings.Join(missed, ", "), w.mails[id])
		}
	}
}
