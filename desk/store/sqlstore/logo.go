package sqlstore

import (
	"context"

	"github.com/go-eddy/eddy/desk/store"
)

const sqlSetLogo = `INSERT INTO site_logo (site, hash, type, width, height, content) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (site) DO UPDATE SET
	hash = excluded.hash, type = excluded.type, width = excluded.width, height = excluded.height, content = excluded.content`

// Logo implements store.Reader.
func (r *reader) Logo(ctx context.Context, site, hash string) (l store.Logo, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT hash, type, width, height, content FROM site_logo WHERE hash = ? AND site = (SELECT id FROM site WHERE key = ?)`, hash, site).
		Scan(&l.Hash, &l.Type, &l.Width, &l.Height, &l.Content)
	return l, notFound(err)
}

// setLogo stores the logo of a site in place of the one before, keeps that, or removes it. A site has one row at most,
// so nothing is left behind.
func (t *tx) setLogo(s *store.Site) error {
	l := &s.Logo
	switch {
	case l.Hash == "":
		return t.exec(`DELETE FROM site_logo WHERE site = ?`, s.ID)
	case l.Content != nil:
		return t.exec(sqlSetLogo, s.ID, l.Hash, l.Type, l.Width, l.Height, l.Content)
	}
	var kept int
	err := t.row(`SELECT count(*) FROM site_logo WHERE site = ? AND hash = ?`, s.ID, l.Hash).Scan(&kept)
	if err == nil && kept == 0 {
		return store.Invalid{{Field: "logo", Reason: store.ReasonUnknown}}
	}
	return err
}
