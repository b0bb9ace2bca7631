package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

func peopleDeeds() []deed {
	return []deed{
		{"PatchContact", 3, false, call(func(w *world, at scene) (func() error, func()) {
			p := store.ContactPatch{Contact: at.contact.ID, Name: fmt.Sprint("Ann ", w.number()), Attributes: map[string]string{"plan": fmt.Sprint(w.last)}}
			return func() error {
				_, err := w.rig.PatchContact(w.t.Context(), p)
				return err
			}, func() { w.changed(at.contact.ID) }
		})},
		{"BlockContact", 4, false, call(func(w *world, at scene) (func() error, func()) {
			blocked := w.rng.IntN(4) == 0
			return func() error {
				_, err := w.rig.BlockContact(w.t.Context(), at.contact.ID, blocked)
				return err
			}, func() { w.changed(at.contact.ID) }
		})},
		{"SetLocale", 2, false, call(func(w *world, at scene) (func() error, func()) {
			return func() error { return w.SetLocale(w.t.Context(), at.contact.ID, "de") }, func() { w.changed(at.contact.ID) }
		})},
		{"NoteContact", 3, true, call(func(w *world, at scene) (func() error, func()) {
			note := fmt.Sprint("note ", w.number())
			return func() error { return w.NoteContact(w.t.Context(), at.contact.ID, note) }, func() { w.notes[at.contact.ID] = note }
		})},
		{"SaveContact", 3, true, call(func(w *world, _ scene) (func() error, func()) {
			var c store.Contact
			p := w.profile()
			return func() (err error) {
				c, _, err = w.rig.SaveContact(w.t.Context(), w.site, p)
				return err
			}, func() { w.known(c) }
		})},
		{"IdentifyContact", 3, true, call(func(w *world, _ scene) (func() error, func()) {
			var c store.Contact
			p, until := w.profile(), w.now().Add(time.Hour)
			return func() (err error) {
				c, err = w.rig.IdentifyContact(w.t.Context(), w.site, p, newToken(), until)
				return err
			}, func() { w.known(c) }
		})},
		{"MergeContacts", 5, true, func(w *world, at scene) func() error {
			into := pick(w.rng, w.contacts)
			return func() error { return w.merge(at.contact, into) }
		}},
		{"EraseContact", 2, true, func(w *world, at scene) func() error {
			return func() error { return w.eraseAll(at.contact) }
		}},
	}
}

// profile is of one of a few customers, and always new.
func (w *world) profile() store.Profile {
	return store.Profile{External: fmt.Sprint("u", w.rng.IntN(5)), Name: "Ann", Attributes: map[string]string{"seen": fmt.Sprint(w.number())}}
}

// known notes a contact that a profile has changed.
func (w *world) known(c store.Contact) {
	w.changed(c.ID)
	if !slices.ContainsFunc(w.contacts, func(x store.Contact) bool { return x.ID == c.ID }) {
		w.contacts = append(w.contacts, c)
	}
}

func (w *world) forget(c store.Contact) {
	w.contacts = slices.DeleteFunc(w.contacts, func(x store.Contact) bool { return x.ID == c.ID })
}

func (w *world) merge(from, into store.Contact) error {
	if _, err := w.rig.MergeContacts(w.t.Context(), from.ID, into.ID); err != nil {
		return err
	}
	w.changed(into.ID)
	w.notes[into.ID] = strings.TrimSpace(w.notes[into.ID] + "\n" + w.notes[from.ID])
	delete(w.notes, from.ID)
	w.forget(from)
	w.former = append(w.former, from)
	return nil
}

// eraseAll erases a contact as the server does: it ends the open conversations of the contact.
func (w *world) eraseAll(c store.Contact) error {
	err := w.rig.EraseContact(w.t.Context(), c.ID)
	if err != nil {
		return err
	}
	open, err := w.Hot().OfContact(w.t.Context(), c.ID)
	w.must(err)
	for _, conv := range open {
		if out := w.try(store.Move{Conv: conv.ID, Trigger: store.Block, By: system}); conv.State != store.Closed && out.Err != nil {
			return fmt.Errorf("an open conversation of an erased contact: %w", out.Err)
		}
	}
	w.erased[c.ID] = true
	delete(w.notes, c.ID)
	w.forget(c)
	return nil
}

// mailDeeds take mails out of the queue in every way. The store writes those to customers by itself.
func mailDeeds() []deed {
	queued := func(name string, often int, do func(w *world, m store.Mail) error) deed {
		return deed{name, often, true, func(w *world, _ scene) func() error {
			return func() error {
				m, err := w.Cold().NextMail(w.t.Context())
				if err != nil {
					return err
				}
				return do(w, m)
			}
		}}
	}
	dead := func(name string, do func(w *world, m store.Mail) error) deed {
		return deed{name, 2, true, func(w *world, _ scene) func() error {
			return func() error {
				all, err := w.Cold().DeadMails(w.t.Context())
				if err != nil || len(all) == 0 {
					return errors.Join(err, store.ErrNotFound)
				}
				return do(w, all[0])
			}
		}}
	}
	return []deed{
		{"Append", 10, false, command(func(w *world, at scene) store.Command { return w.reply(at) })},
		{"QueueMail", 2, false, call(func(w *world, at scene) (func() error, func()) {
			m := store.Mail{Kind: store.MailTranscript, To: annsMail, Conv: at.conv.ID}
			if m.Conv == "" {
				m.Kind = store.MailTest
			}
			return func() error {
				_, err := w.rig.QueueMail(w.t.Context(), m)
				return err
			}, func() {}
		})},
		queued("SealMail", 5, func(w *world, m store.Mail) error {
			_, err := w.SealMail(w.t.Context(), m.ID)
			if c := w.any(m.Conv); err == nil && c.State == store.Assigned { // its agent writes on while it is being sent
				return w.run(text(c.ID, c.Owner, "and this"))
			}
			return err
		}),
		queued("MailSent", 4, func(w *world, m store.Mail) error { return w.sent(m) }),
		queued("DelayMail", 2, func(w *world, m store.Mail) error {
			return w.DelayMail(w.t.Context(), m.ID, w.now().Add(time.Hour).UnixMilli(), "450 later")
		}),
		queued("GiveUpMail", 2, func(w *world, m store.Mail) error { return w.GiveUpMail(w.t.Context(), m.ID, "550 no") }),
		{"ExpireMails", 1, false, call(func(w *world, _ scene) (func() error, func()) {
			return func() error {
				_, err := w.ExpireMails(w.t.Context(), "too late")
				return err
			}, func() {}
		})},
		dead("RetryMail", func(w *world, m store.Mail) error { return w.RetryMail(w.t.Context(), m.ID) }),
		dead("DiscardMail", func(w *world, m store.Mail) error {
			if m.Upto == 0 {
				m.Upto = 1 << 62 // what it would have had by then
			}
			w.mails[m.Conv] = append(w.mails[m.Conv], m)
			return w.DiscardMail(w.t.Context(), m.ID)
		}),
	}
}

// reply is what an agent does about a customer who waits for mails: it takes the conversation, or writes.
func (w *world) reply(at scene) store.Command {
	open, err := w.Cold().OpenConversations(w.t.Context())
	w.must(err)
	open = slices.DeleteFunc(open, func(c store.Conversation) bool { return c.ReplyTo == "" })
	if len(open) == 0 {
		return leave(at.contact, "later")
	}
	c := pick(w.rng, open)
	if c.State != store.Assigned {
		return store.Move{Conv: c.ID, Trigger: store.TakeOver, By: at.agent.Actor(), Force: true}
	}
	return text(c.ID, c.Owner, "an answer")
}

// sent takes a mail out of the queue as the one who sends it does.
func (w *world) sent(m store.Mail) error {
	if m.Kind == store.MailAnswers {
		upto, err := w.SealMail(w.t.Context(), m.ID)
		if err != nil {
			return err
		}
		m.Upto = upto
		w.mails[m.Conv] = append(w.mails[m.Conv], m)
	}
	return w.MailSent(w.t.Context(), m.ID)
}
