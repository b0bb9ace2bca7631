package storetest

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// chatOnces are about customers, their conversations and mails.
func chatOnces() []once {
	return []once{
		{names: []string{"Open"}, others: told(errNothing), begin: func(r *rig) func(int) error {
			ann := r.visitor()
			return func(int) error {
				out := r.try(store.Open{Contact: ann})
				return some(len(out.Events), out.Err)
			}
		}},
		{names: []string{"LeftMessage"}, others: told(errNothing), begin: func(r *rig) func(int) error {
			cmd := leave(r.visitor(), "once")
			return func(int) error {
				out := r.try(cmd)
				if out.Dup {
					return errNothing
				}
				return out.Err
			}
		}},
		{names: []string{"BotTurn"}, others: told(errNothing), begin: func(r *rig) func(int) error {
			opened := r.do(store.Open{Contact: r.visitor()})
			return func(int) error {
				out := r.try(store.BotTurn{Conv: opened.Conv.ID, Turn: opened.Turn, Say: []store.Say{{Body: "hi"}}})
				return some(len(out.Events), out.Err)
			}
		}},
		{names: []string{"Relax"}, others: told(store.ErrConflict), begin: func(r *rig) func(int) error {
			conv := r.open(r.visitor(), true)
			return func(int) error {
				return r.try(store.Relax{Conv: conv.ID, Rev: conv.Rev, Missed: []string{"returns"}}).Err
			}
		}},
		{names: []string{"Warn"}, others: told(store.ErrConflict), begin: func(r *rig) func(int) error {
			conv := r.open(r.visitor(), true)
			return func(int) error { return r.try(store.Warn{Conv: conv.ID, Seq: conv.LastSeq, Body: "?"}).Err }
		}},
		{names: []string{"Snooze"}, others: told(store.ErrConflict), begin: func(r *rig) func(int) error {
			conv := r.assigned(r.visitor(), r.moe)
			return func(i int) error {
				return r.try(store.Snooze{Conv: conv.ID, By: r.moe.Actor(), Seq: conv.LastSeq, Until: r.now().UnixMilli() + int64(1+i)*3_600_000}).Err
			}
		}},
		{names: []string{"MergeContacts"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			both := []store.Contact{r.visitor(), r.visitor()}
			return func(i int) error {
				_, err := r.MergeContacts(r.t.Context(), both[i%2].ID, both[1-i%2].ID)
				return err
			}
		}},
		{names: []string{"MergeContacts", "EraseContact"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			from, into := r.visitor(), r.visitor()
			return func(i int) error {
				if i == 0 {
					return r.EraseContact(r.t.Context(), from.ID)
				}
				_, err := r.MergeContacts(r.t.Context(), from.ID, into.ID)
				return err
			}
		}},
		{names: []string{"SaveContact", "IdentifyContact"}, others: told(errNothing), begin: func(r *rig) func(int) error {
			p := store.Profile{External: "once", Name: "Ann"}
			return func(int) error {
				_, made, err := r.SaveContact(r.t.Context(), r.site, p)
				if err == nil && !made {
					return errNothing
				}
				_, again := r.IdentifyContact(r.t.Context(), r.site, p, newToken(), r.now())
				return errors.Join(err, again)
			}
		}},
		{names: []string{"DropVisitor", "CreateVisitor"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			token := newToken()
			_, err := r.CreateVisitor(r.t.Context(), r.site, token, r.now())
			r.must(err)
			return func(int) error { return r.DropVisitor(r.t.Context(), token) }
		}},
		{names: []string{"AddAttachment"}, others: told(store.ErrQuota), begin: func(r *rig) func(int) error {
			ann := r.visitor()
			conv := r.open(ann, true)
			return func(int) error {
				_, err := r.AddAttachment(r.t.Context(), store.Attachment{Conv: conv.ID, Uploader: ann.Actor(), Storage: uuid.NewString(), State: store.FileReady}, store.Quota{Loose: 1})
				return err
			}
		}},
		{names: []string{"Append"}, others: told(store.ErrFile), begin: func(r *rig) func(int) error {
			ann := r.visitor()
			conv := r.open(ann, true)
			a := r.upload(conv.ID, ann.Actor())
			return func(int) error { return r.try(withFiles(conv.ID, ann.Actor(), "", a)).Err }
		}},
		{names: []string{"MailSent", "GiveUpMail", "QueueMail"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			m := r.mail("a@shop.example")
			return func(i int) error {
				if i%2 == 0 {
					return r.MailSent(r.t.Context(), m.ID)
				}
				return r.GiveUpMail(r.t.Context(), m.ID, "550 no")
			}
		}},
		{names: []string{"RetryMail", "DiscardMail"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			m := r.mail("b@shop.example")
			r.must(r.GiveUpMail(r.t.Context(), m.ID, "550 no"))
			return func(i int) error {
				if i%2 == 0 {
					return r.RetryMail(r.t.Context(), m.ID)
				}
				return r.DiscardMail(r.t.Context(), m.ID)
			}
		}},
		{names: []string{"AskReset"}, others: told(errNothing), begin: func(r *rig) func(int) error {
			a := r.anybody(perm.Agent)
			for range store.MaxResets - 1 {
				r.must(r.NewReset(r.t.Context(), a.ID, a.Email, newToken()))
			}
			return func(i int) error {
				ip := fmt.Sprint("192.0.2.", i)
				r.do(store.AskReset{Login: a.Login, IP: ip})
				rows, err := r.Cold().Audit(r.t.Context(), store.AuditQuery{Target: "agent " + a.ID})
				for _, row := range rows {
					if row.IP == ip && row.Detail != "mail" {
						return errNothing
					}
				}
				return err
			}
		}},
		{names: []string{"Secret"}, others: told(errNothing), begin: func(r *rig) func(int) error {
			first := make(chan string, 1)
			return func(int) error {
				key, err := r.Secret(r.t.Context(), "once")
				select {
				case first <- string(key):
					return err
				default:
				}
				want := <-first
				first <- want
				if err == nil && string(key) == want {
					return errNothing // the one that is there
				}
				return errors.Join(err, errors.New("another key"))
			}
		}},
	}
}
