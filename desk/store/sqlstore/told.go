package sqlstore

import (
	"slices"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlEndOf   = `SELECT id, merged, erased > 0 FROM contact WHERE id = ?`
	sqlTokenOf = `SELECT contact FROM contact_token WHERE token = ?`
	sqlLoginOf = `SELECT agent FROM agent_session WHERE token = ?`
)

// The functions below write a row of the feed for a change that is about no conversation. A second one of the same command
// about the same writes nothing.

func (t *tx) tellContact(id string) error {
	c, err := scanContact(t.row(sqlAnyContact, id))
	if err != nil {
		return err
	}
	t.part.Contacts = append(t.part.Contacts, c)
	return t.tell(store.OutboxRow{Type: store.EventContact, Site: c.Site, Contact: id})
}

func (t *tx) tellAccount(agent string) error {
	if slices.Contains(t.part.Accounts, agent) {
		return nil
	}
	t.part.Accounts = append(t.part.Accounts, agent)
	return t.tell(store.OutboxRow{Type: store.EventAccount, Contact: agent})
}

func (t *tx) tellEnded(contact string) error {
	end, err := scanEnd(t.row(sqlEndOf, contact))
	if err != nil || slices.Contains(t.part.Ended, end) {
		return err
	}
	t.part.Ended = append(t.part.Ended, end)
	return t.tell(store.OutboxRow{Type: store.EventEnded, Contact: contact})
}

func scanEnd(r scanner) (end store.ContactEnd, err error) {
	return end, notFound(r.Scan(&end.Contact, &end.Into, &end.Erased))
}

func (t *tx) tellFile(a store.Attachment) error {
	t.part.Files = append(t.part.Files, a)
	return t.tell(store.OutboxRow{Type: store.EventFile, Contact: a.ID})
}

func (t *tx) tellSetup() error {
	if t.part.Setup {
		return nil
	}
	t.part.Setup = true
	return t.tell(store.OutboxRow{Type: store.EventSetup})
}

func (t *tx) tellHooks() error {
	if t.part.Hooks {
		return nil
	}
	t.part.Hooks = true
	return t.tell(store.OutboxRow{Type: store.EventHooks})
}
