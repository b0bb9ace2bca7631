package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// durable is a command without events. What it has acknowledged is there after the process was killed.
type durable struct {
	names []string                       // of the commands
	do    func(r *rig, key string) error // uses a key that is used once
	there func(r *rig, key string) error // looks for it
}

func durables() []durable {
	return slices.Concat(chatDurables(), personDurables(), accountDurables(), placeDurables())
}

// isIt returns an error unless something is as it should be.
func isIt(ok bool, what any, err error) error {
	if err == nil && !ok {
		err = fmt.Errorf("it is %+v", what)
	}
	return err
}

// isGone returns an error unless a read has found nothing.
func isGone(what any, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("it is there: %+v", what))
}

// tokenOf makes a token of a key.
func tokenOf(key string) (t store.Token) {
	copy(t[:], key)
	return t
}

// named returns a contact whose external id is a key.
func (r *rig) named(key string, attributes map[string]string) (store.Contact, error) {
	c, _, err := r.SaveContact(r.t.Context(), r.site, store.Profile{External: key, Name: "Ann", Attributes: attributes})
	return c, err
}

// foundByName returns the contact of named.
func (r *rig) foundByName(key string) (store.Contact, error) {
	all, _, err := r.Cold().Contacts(r.t.Context(), store.ContactQuery{Words: key})
	if err == nil && len(all) != 1 {
		return store.Contact{}, store.ErrNotFound
	}
	return all[0], err
}

// chatOf opens a conversation of a customer whose external id is a key.
func (r *rig) chatOf(key string, human bool) (store.Outcome, error) {
	c, err := r.named(key, nil)
	if err != nil {
		return store.Outcome{}, err
	}
	out := r.try(store.Open{Contact: c, Human: human})
	return out, out.Err
}

// chat returns the last conversation of chatOf.
func (r *rig) chat(key string) (store.Conversation, error) {
	c, err := r.foundByName(key)
	if err != nil {
		return store.Conversation{}, err
	}
	all, err := r.Cold().OfContact(r.t.Context(), c.ID)
	if err == nil && len(all) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Conversation{}, err
	}
	return all[len(all)-1], nil
}

// inChat makes a durable of a command of a conversation.
func inChat(name string, human bool, cmd func(out store.Outcome) store.Command, there func(c *store.Conversation) bool) durable {
	return durable{[]string{name}, func(r *rig, key string) error {
		out, err := r.chatOf(key, human)
		if err != nil {
			return err
		}
		return r.try(cmd(out)).Err
	}, func(r *rig, key string) error {
		c, err := r.chat(key)
		return isIt(there(&c), c, err)
	}}
}

func chatDurables() []durable {
	closed := func(r *rig, key string) (store.Conversation, error) {
		out, err := r.chatOf(key, true)
		if err == nil {
			out = r.try(store.Move{Conv: out.Conv.ID, Trigger: store.CustomerClose, By: store.Actor{Kind: store.Customer, ID: out.Conv.Contact}})
		}
		return out.Conv, errors.Join(err, out.Err)
	}
	return []durable{
		inChat("Tag", true, func(out store.Outcome) store.Command {
			return store.Tag{Conv: out.Conv.ID, By: system, Add: []string{"vip", "late"}}
		},
			func(c *store.Conversation) bool { return c.Tags == "late,vip" }),
		inChat("Leave", true, func(out store.Outcome) store.Command { return store.Leave{Conv: out.Conv.ID, At: 77} },
			func(c *store.Conversation) bool { return c.LeftAt == 77 }),
		{[]string{"AcceptTurn"}, func(r *rig, key string) error {
			out, err := r.chatOf(key, false)
			if err != nil {
				return err
			}
			return r.try(store.AcceptTurn{Turn: out.Turn, Until: 77}).Err
		}, func(r *rig, key string) error {
			c, err := r.chat(key)
			if err != nil {
				return err
			}
			turn, err := r.Cold().BotTurn(r.t.Context(), r.events(c.ID, store.StaffSide)[0].ID)
			return isIt(turn.State == store.TurnAccepted && turn.Until == 77, turn, err)
		}},
		{[]string{"Rate"}, func(r *rig, key string) error {
			c, err := closed(r, key)
			if err != nil {
				return err
			}
			return r.try(store.Rate{Conv: c.ID, By: store.Actor{Kind: store.Customer, ID: c.Contact}, Score: 4, Comment: key}).Err
		}, func(r *rig, key string) error {
			c, err := r.chat(key)
			return isIt(c.Score == 4 && c.Comment == key, c, err)
		}},
		{[]string{"SaveMarks"}, func(r *rig, key string) error {
			out, err := r.chatOf(key, true)
			if err != nil {
				return err
			}
			return r.Store.SaveMarks(r.t.Context(), []store.ConvMarks{{Conv: out.Conv.ID, Marks: store.Marks{Staff: store.Mark{Delivered: 1, Read: 1}}}})
		}, func(r *rig, key string) error {
			c, err := r.chat(key)
			return isIt(c.Marks.Staff.Read == 1, c.Marks, err)
		}},
		{[]string{"AddAttachment", "DecideAttachment"}, func(r *rig, key string) error {
			out, err := r.chatOf(key, true)
			if err != nil {
				return err
			}
			a, err := r.AddAttachment(r.t.Context(), store.Attachment{Conv: out.Conv.ID, Uploader: system, Storage: key, State: store.FileChecking}, store.Quota{})
			if err == nil {
				_, err = r.DecideAttachment(r.t.Context(), a.ID, true)
			}
			return err
		}, func(r *rig, key string) error {
			known, err := r.Cold().Stored(r.t.Context(), []string{key})
			return isIt(known[key], known, err)
		}},
		{[]string{"EraseContact", "EraseMore"}, func(r *rig, key string) error {
			c, err := closed(r, key)
			if err == nil {
				err = r.EraseContact(r.t.Context(), c.Contact)
			}
			if err == nil {
				_, err = r.EraseMore(r.t.Context(), 1000)
			}
			return err
		}, func(r *rig, key string) error {
			c, err := r.foundByName(key)
			return isGone(c, err)
		}},
	}
}

func personDurables() []durable {
	contact := func(name string, do func(r *rig, c store.Contact, key string) error, there func(r *rig, c store.Contact, key string) error) durable {
		return durable{[]string{name}, func(r *rig, key string) error {
			c, err := r.named(key, nil)
			if err != nil {
				return err
			}
			return do(r, c, key)
		}, func(r *rig, key string) error {
			c, err := r.foundByName(key)
			if err != nil {
				return err
			}
			return there(r, c, key)
		}}
	}
	return []durable{
		contact("SaveContact", func(*rig, store.Contact, string) error { return nil }, func(_ *rig, c store.Contact, key string) error {
			return isIt(c.External == key && c.Name == "Ann", c, nil)
		}),
		contact("IdentifyContact", func(r *rig, _ store.Contact, key string) error {
			_, err := r.IdentifyContact(r.t.Context(), r.site, store.Profile{External: key}, tokenOf(key), r.now().Add(time.Hour))
			return err
		}, func(r *rig, c store.Contact, key string) error {
			by, err := r.Hot().ContactByToken(r.t.Context(), tokenOf(key), r.now())
			return isIt(by.ID == c.ID, by, err)
		}),
		contact("PatchContact", func(r *rig, c store.Contact, key string) error {
			_, err := r.PatchContact(r.t.Context(), store.ContactPatch{Contact: c.ID, Attributes: map[string]string{"order": "17"}})
			return err
		}, func(_ *rig, c store.Contact, _ string) error { return isIt(c.Attributes["order"] == "17", c, nil) }),
		contact("BlockContact", func(r *rig, c store.Contact, _ string) error {
			_, err := r.BlockContact(r.t.Context(), c.ID, true)
			return err
		}, func(_ *rig, c store.Contact, _ string) error { return isIt(c.Blocked, c, nil) }),
		contact("SetLocale", func(r *rig, c store.Contact, _ string) error { return r.SetLocale(r.t.Context(), c.ID, "de") },
			func(_ *rig, c store.Contact, _ string) error { return isIt(c.Locale == "de", c, nil) }),
		contact("NoteContact", func(r *rig, c store.Contact, key string) error { return r.NoteContact(r.t.Context(), c.ID, key) },
			func(r *rig, c store.Contact, key string) error {
				note, err := r.Cold().ContactNote(r.t.Context(), c.ID)
				return isIt(note == key, note, err)
			}),
		contact("Visited", func(r *rig, c store.Contact, key string) error {
			return r.try(store.Visited{Contact: c.ID, Facts: store.Facts{Page: "https://shop.example/" + key, At: 1}}).Err
		}, func(r *rig, c store.Contact, key string) error {
			f, _, err := r.Cold().Visits(r.t.Context(), c.ID)
			return isIt(strings.HasSuffix(f.Page, key), f, err)
		}),
		contact("MergeContacts", func(r *rig, c store.Contact, key string) error {
			from, err := r.named(key[:8], map[string]string{"was": key[:8]})
			if err == nil {
				_, err = r.MergeContacts(r.t.Context(), from.ID, c.ID)
			}
			return err
		}, func(_ *rig, c store.Contact, key string) error { return isIt(c.Attributes["was"] == key[:8], c, nil) }),
		{[]string{"CreateVisitor", "ExtendVisitor", "DropVisitor"}, func(r *rig, key string) error {
			other := tokenOf("x" + key)
			_, err := r.CreateVisitor(r.t.Context(), r.site, tokenOf(key), r.now().Add(time.Minute))
			if err == nil {
				err = r.ExtendVisitor(r.t.Context(), tokenOf(key), r.now().Add(48*time.Hour))
			}
			if err == nil {
				_, err = r.CreateVisitor(r.t.Context(), r.site, other, r.now().Add(time.Hour))
			}
			if err == nil {
				err = r.DropVisitor(r.t.Context(), other)
			}
			return err
		}, func(r *rig, key string) error {
			if _, err := r.Hot().ContactByToken(r.t.Context(), tokenOf(key), r.now().Add(24*time.Hour)); err != nil {
				return err
			}
			return isGone(r.Hot().ContactByToken(r.t.Context(), tokenOf("x"+key), r.now()))
		}},
		{[]string{"QueueMail", "GiveUpMail"}, func(r *rig, key string) error {
			m, err := r.QueueMail(r.t.Context(), store.Mail{Kind: store.MailTest, To: key + "@shop.example"})
			if err == nil {
				err = r.GiveUpMail(r.t.Context(), m.ID, "550 no")
			}
			return err
		}, func(r *rig, key string) error {
			dead, err := r.Cold().DeadMails(r.t.Context())
			there := slices.ContainsFunc(dead, func(m store.Mail) bool { return m.To == key+"@shop.example" })
			return isIt(there || len(dead) == store.MaxMailsOfPage, len(dead), err) // a page may be full of younger ones
		}},
		{[]string{"Audit"}, func(r *rig, key string) error {
			return r.try(store.Audit{Who: system, Action: store.AuditSearch, Target: key}).Err
		},
			func(r *rig, key string) error {
				rows, err := r.Cold().Audit(r.t.Context(), store.AuditQuery{Target: key})
				return isIt(len(rows) == 1, rows, err)
			}},
		{[]string{"AskReset"}, func(r *rig, key string) error { return r.try(store.AskReset{Login: "nobody", IP: key}).Err },
			func(r *rig, key string) error {
				rows, err := r.Cold().Audit(r.t.Context(), store.AuditQuery{Action: store.AuditReset})
				there := slices.ContainsFunc(rows, func(row store.AuditRow) bool { return row.IP == key })
				return isIt(there || len(rows) == store.MaxAuditPage, len(rows), err)
			}},
	}
}

// account makes a durable of something that is done to a new account, whose login is the beginning of the key.
func account(names []string, do func(r *rig, a store.AgentAccount, key string) error, there func(r *rig, a store.AgentAccount, key string) error) durable {
	login := func(key string) string { return "a" + key[:20] }
	return durable{names, func(r *rig, key string) error {
		a, err := r.CreateAgent(r.t.Context(), store.AgentAccount{Login: login(key), Name: "Any", Password: "old", Role: perm.Agent, Capacity: 1, Email: "any@shop.example"})
		if err != nil {
			return err
		}
		return do(r, a, key)
	}, func(r *rig, key string) error {
		a, err := r.Cold().AgentByLogin(r.t.Context(), login(key))
		if err != nil {
			return err
		}
		return there(r, a, key)
	}}
}

// newKey returns one that no other process has.
func newKey() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }
