package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlContact       = `SELECT ` + contactColumns + ` FROM contact p WHERE p.id = ? AND p.` + isThere
	sqlByExternal    = `SELECT ` + contactColumns + ` FROM contact p WHERE p.id = (SELECT CASE x.merged WHEN '' THEN x.id ELSE x.merged END FROM contact x WHERE x.site = ? AND x.external = ? AND x.external <> '')`
	sqlInsertContact = `INSERT INTO contact (id, workspace, site, name, external, verified, locale, attributes, created) VALUES (?, ?, ?, ?, ?, TRUE, ?, ?, ?)`
	sqlUpdateContact = `UPDATE contact SET name = ?, locale = ?, attributes = ? WHERE id = ?`
	sqlKeepToken     = `INSERT INTO contact_token (token, contact, created, expires) VALUES (?, ?, ?, ?)
		ON CONFLICT (token) DO UPDATE SET expires = excluded.expires WHERE contact_token.contact = excluded.contact`
	sqlDropTokens = `DELETE FROM contact_token WHERE token IN (SELECT token FROM contact_token WHERE expires < ? ORDER BY expires LIMIT 4)`
)

// tokenGrace is how long the server still calls a visitor's token expired, and not unknown.
const tokenGrace = 30 * 24 * time.Hour

// IdentifyContact implements store.Accounts.
func (db *DB) IdentifyContact(ctx context.Context, site store.Site, p store.Profile, token store.Token, expires time.Time) (store.Contact, error) {
	return written(ctx, db, func(t *tx) (store.Contact, error) {
		c, _, err := t.identified(site, p)
		if err != nil {
			return c, err
		}
		if err := t.exec(sqlDropTokens, t.now()-tokenGrace.Milliseconds()); err != nil {
			return c, err
		}
		return c, one(t.change(sqlKeepToken, token[:], c.ID, t.now(), expires.UnixMilli()))
	})
}

// SaveContact implements store.Accounts.
func (db *DB) SaveContact(ctx context.Context, site store.Site, p store.Profile) (store.Contact, bool, error) {
	fresh := make(chan bool, 1)
	c, err := written(ctx, db, func(t *tx) (store.Contact, error) {
		c, made, err := t.identified(site, p)
		fresh <- made
		if err != nil {
			return c, err
		}
		changed, err := t.setFields(c.ID, p.Fields, "")
		if err != nil || !changed {
			return c, err
		}
		return c, t.tellContact(c.ID)
	})
	if err != nil {
		return c, false, err
	}
	return c, <-fresh, nil
}

// identified returns the contact of a profile, and whether it is new.
func (t *tx) identified(site store.Site, p store.Profile) (c store.Contact, fresh bool, err error) {
	c, err = scanContact(t.row(sqlByExternal, site.ID, p.External))
	switch {
	case errors.Is(err, store.ErrNotFound):
		c, err = t.newVerified(site, p)
		return c, true, err
	case err == nil && c.Blocked:
		return c, false, store.ErrBlocked
	case err == nil:
		err = t.renew(&c, p)
	}
	return c, false, err
}

// newVerified makes a contact for a customer that the site's backend knows. An earlier anonymous contact stays another
// one.
func (t *tx) newVerified(site store.Site, p store.Profile) (store.Contact, error) {
	id, err := newID()
	if err != nil {
		return store.Contact{}, err
	}
	c := store.Contact{ID: id, Site: site.ID, Name: p.Name, External: p.External, Verified: true, Locale: p.Locale, Attributes: p.Attributes, Created: t.now()}
	if c.Name == "" {
		c.Name = visitorName(id)
	}
	attributes, err := attributesJSON(c.Attributes)
	if err != nil {
		return c, err
	}
	if err := t.exec(sqlInsertContact, c.ID, workspaceID, c.Site, c.Name, c.External, c.Locale, attributes, c.Created); err != nil {
		return c, err
	}
	return c, t.tellContact(c.ID)
}

// renew takes over what the site's backend says now. Attributes that it does not name stay.
func (t *tx) renew(c *store.Contact, p store.Profile) error {
	before := *c
	if p.Name != "" {
		c.Name = p.Name
	}
	if p.Locale != "" {
		c.Locale = p.Locale
	}
	c.Attributes = maps.Clone(c.Attributes)
	if c.Attributes == nil {
		c.Attributes = make(map[string]string)
	}
	maps.Copy(c.Attributes, p.Attributes)
	if c.Name == before.Name && c.Locale == before.Locale && maps.Equal(c.Attributes, before.Attributes) {
		return nil
	}
	return t.saveContact(c)
}

func (t *tx) saveContact(c *store.Contact) error {
	attributes, err := attributesJSON(c.Attributes)
	if err != nil {
		return err
	}
	if err := t.exec(sqlUpdateContact, c.Name, c.Locale, attributes, c.ID); err != nil {
		return err
	}
	return t.tellContact(c.ID)
}

func attributesJSON(all map[string]string) (string, error) {
	if all == nil {
		return "{}", nil
	}
	b, err := json.Marshal(all)
	return string(b), err
}

func visitorName(id string) string { return "Visitor " + strings.ToUpper(id[len(id)-4:]) }

// DropVisitor implements store.Accounts.
func (db *DB) DropVisitor(ctx context.Context, token store.Token) error {
	return db.write(ctx, func(t *tx) error {
		var contact string
		if err := t.row(sqlTokenOf, token[:]).Scan(&contact); err != nil {
			return notFound(err)
		}
		if err := t.exec(`DELETE FROM contact_token WHERE token = ?`, token[:]); err != nil {
			return err
		}
		return t.tellEnded(contact)
	})
}

// SetLocale implements store.Accounts.
func (db *DB) SetLocale(ctx context.Context, contact, locale string) error {
	return db.write(ctx, func(t *tx) error {
		if err := one(t.change(`UPDATE contact SET locale = ? WHERE id = ? AND `+isThere, locale, contact)); err != nil {
			return err
		}
		return t.tellContact(contact)
	})
}

// preChat checks and stores a customer's answers before a new conversation, and reports whether there are any.
func (t *tx) preChat(c *store.Open) (answered bool, err error) {
	settings, err := t.siteSettings(c.Contact.Site)
	if err != nil {
		return false, err
	}
	if len(settings.PreChat) == 0 && settings.Consent == "" {
		return false, nil
	}
	contact, err := scanContact(t.row(sqlContact, c.Contact.ID))
	if err != nil {
		return false, err
	}
	answers, err := settings.CheckPreChat(contact.Attributes, c.Fields, c.Consent)
	answered = len(answers) > 0 || settings.Consent != ""
	if err != nil || len(answers) == 0 {
		return answered, err
	}
	contact.Describe(answers)
	c.Contact.Name = contact.Name
	return true, t.saveContact(&contact)
}

// written runs an account command that returns a value, and waits for its commit.
func written[T any](ctx context.Context, db *DB, run func(*tx) (T, error)) (T, error) {
	result := make(chan T, 1)
	err := db.write(ctx, func(t *tx) error {
		v, err := run(t)
		result <- v
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return <-result, nil
}
