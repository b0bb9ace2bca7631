package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	fileColumns = `a.id, a.conversation, a.seq, a.uploader_kind, a.uploader_id, a.name, a.mime, a.size, a.width, a.height, a.sha256, a.storage,
		a.state, a.created, c.contact, c.site, coalesce(m.pseq, 0)`
	fileFrom = ` FROM attachment a JOIN conversation c ON c.id = a.conversation
		LEFT JOIN message m ON m.conversation = a.conversation AND m.seq = a.seq `
	sqlFile       = `SELECT ` + fileColumns + fileFrom + `WHERE a.id = ?`
	sqlFiles      = `SELECT ` + fileColumns + fileFrom + `WHERE a.id IN (SELECT value FROM json_each(?))`
	sqlFilesOf    = `SELECT ` + fileColumns + fileFrom + `WHERE a.conversation = ? AND a.seq BETWEEN ? AND ? AND a.seq > 0 ORDER BY a.seq, a.pos`
	sqlChecking   = `SELECT ` + fileColumns + fileFrom + `WHERE a.state = 'checking' ORDER BY a.created, a.id LIMIT ?`
	sqlLooseUntil = `SELECT ` + fileColumns + fileFrom + `WHERE a.seq = 0 AND a.created < ? ORDER BY a.created LIMIT ?`
	sqlInsertFile = `INSERT INTO attachment (id, conversation, seq, pos, uploader_kind, uploader_id, name, mime, size, width, height, sha256, storage, state, created)
		VALUES (?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlBindFile = `UPDATE attachment SET seq = ?, pos = ? WHERE id = ? AND conversation = ? AND uploader_kind = ? AND uploader_id = ?
		AND seq = 0 AND state <> 'refused'`
	sqlUploads = `SELECT coalesce(sum(CASE WHEN created >= ?1 THEN size END), 0), count(CASE WHEN created >= ?1 THEN 1 END), count(CASE WHEN seq = 0 THEN 1 END)
		FROM attachment WHERE uploader_kind = ?2 AND uploader_id = ?3 AND (created >= ?1 OR seq = 0)`
)

const secretBytes = 32

func scanFile(r scanner) (store.Attachment, error) {
	var a store.Attachment
	var sum []byte
	err := r.Scan(&a.ID, &a.Conv, &a.Seq, &a.Uploader.Kind, &a.Uploader.ID, &a.Name, &a.Type, &a.Size, &a.Width, &a.Height, &sum, &a.Storage,
		&a.State, &a.Created, &a.Contact, &a.Site, &a.PSeq)
	copy(a.SHA256[:], sum)
	return a, notFound(err)
}

func scanUploads(r scanner) (u store.Uploads, err error) {
	err = r.Scan(&u.Bytes, &u.Count, &u.Loose)
	return u, err
}

// AddAttachment implements store.Files.
func (db *DB) AddAttachment(ctx context.Context, a store.Attachment, q store.Quota) (store.Attachment, error) {
	id, err := newID()
	if err != nil {
		return a, err
	}
	a.ID, a.Seq, a.Created = id, 0, db.Now().UnixMilli()
	return a, db.write(ctx, func(t *tx) error {
		d, err := t.load(a.Conv)
		if err != nil {
			return err
		}
		by, err := t.acting(&d.Conversation, a.Uploader)
		if err != nil {
			return err
		}
		left, err := scanUploads(t.row(sqlUploads, q.Since, string(by.Kind), by.ID))
		if err != nil {
			return err
		}
		if left.Over(q, a.Size) {
			return store.ErrQuota
		}
		return t.exec(sqlInsertFile, a.ID, a.Conv, string(by.Kind), by.ID, a.Name, a.Type, a.Size, a.Width, a.Height, a.SHA256[:],
			a.Storage, a.State, a.Created)
	})
}

// DecideAttachment implements store.Files.
func (db *DB) DecideAttachment(ctx context.Context, id string, ok bool) (store.Attachment, error) {
	state := store.FileRefused
	if ok {
		state = store.FileReady
	}
	decided := make(chan store.Attachment, 1) // the change may be made after write has given up
	err := db.write(ctx, func(t *tx) error {
		n, err := t.change(`UPDATE attachment SET state = ? WHERE id = ? AND state = 'checking'`, state, id)
		if err != nil {
			return err
		}
		a, err := scanFile(t.row(sqlFile, id))
		if err == nil && n > 0 {
			err = t.tellFile(a)
		}
		if err == nil {
			decided <- a
		}
		return err
	})
	if err != nil {
		return store.Attachment{}, err
	}
	return <-decided, nil
}

// DropLoose implements store.Files.
func (db *DB) DropLoose(ctx context.Context, before int64, limit int) ([]store.Attachment, error) {
	dropped := make(chan []store.Attachment, 1) // as in DecideAttachment
	err := db.write(ctx, func(t *tx) error {
		loose, err := all(t, scanFile, sqlLooseUntil, before, limit)
		if err != nil {
			return err
		}
		for i := range loose {
			if err := t.exec(`DELETE FROM attachment WHERE id = ? AND seq = 0`, loose[i].ID); err != nil {
				return err
			}
		}
		dropped <- loose
		return nil
	})
	if err != nil {
		return nil, err
	}
	return <-dropped, nil
}

// Secret implements store.Files.
func (db *DB) Secret(ctx context.Context, name string) ([]byte, error) {
	fresh := make([]byte, secretBytes)
	_, _ = rand.Read(fresh) // never fails
	kept, err := db.setOnce(ctx, "secret."+name, hex.EncodeToString(fresh))
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(kept)
	if err == nil && len(key) != secretBytes {
		err = errors.New("store: secret " + name + " has another length")
	}
	return key, err
}

// FilesAt implements store.Files.
func (db *DB) FilesAt(ctx context.Context, id string) (string, error) {
	return db.setOnce(ctx, "files_at", id)
}

// setOnce stores a setting unless there is one, and returns the one that is stored.
func (db *DB) setOnce(ctx context.Context, key, value string) (string, error) {
	return written(ctx, db, func(t *tx) (kept string, err error) {
		if err := t.exec(`INSERT INTO setting (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING`, key, value); err != nil {
			return "", err
		}
		err = t.row(`SELECT value FROM setting WHERE key = ?`, key).Scan(&kept)
		return kept, err
	})
}

// bind makes files part of a message. They must be the sender's own, of the same conversation, and not sent before.
func (t *tx) bind(c *store.Append, seq uint64) ([]store.Attachment, error) {
	var files []store.Attachment
	for i, id := range c.Attachments {
		n, err := t.change(sqlBindFile, seq, i, id, c.Conv, string(c.From.Kind), c.From.ID)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, store.ErrFile
		}
		a, err := scanFile(t.row(sqlFile, id))
		if err != nil {
			return nil, err
		}
		files = append(files, a)
	}
	return files, nil
}

// previewOf returns what an inbox shows of a message. A message without words is shown by its first file.
func previewOf(e *store.Event) string {
	if e.Body == "" && len(e.Files) > 0 {
		return e.Files[0].Name
	}
	return e.Body
}

// addFiles reads the files of a page of events.
func (r *reader) addFiles(ctx context.Context, conv string, events []store.Event) error {
	var first, last uint64
	bySeq := make(map[uint64]*store.Event)
	for i := range events {
		e := &events[i]
		if e.Kind != store.KindFile && e.Kind != store.KindNote {
			continue
		}
		if first == 0 {
			first = e.Seq
		}
		last, bySeq[e.Seq] = e.Seq, e
	}
	if first == 0 {
		return nil
	}
	files, err := list(ctx, r.db, scanFile, sqlFilesOf, conv, first, last)
	for _, a := range files {
		if e := bySeq[a.Seq]; e != nil {
			e.Files = append(e.Files, a)
		}
	}
	return err
}

// Attachments implements store.FileReader.
func (r *reader) Attachments(ctx context.Context, ids []string) ([]store.Attachment, error) {
	set, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return list(ctx, r.db, scanFile, sqlFiles, string(set))
}

// Uploads implements store.FileReader.
func (r *reader) Uploads(ctx context.Context, by store.Actor, since int64) (store.Uploads, error) {
	return scanUploads(r.db.QueryRowContext(ctx, sqlUploads, since, string(by.Kind), by.ID))
}

// SiteBytes implements store.FileReader.
func (r *reader) SiteBytes(ctx context.Context) (map[string]int64, error) {
	type total struct {
		site  string
		bytes int64
	}
	totals, err := list(ctx, r.db, func(s scanner) (x total, err error) {
		err = s.Scan(&x.site, &x.bytes)
		return x, err
	}, `SELECT c.site, sum(a.size) FROM attachment a JOIN conversation c ON c.id = a.conversation WHERE a.state <> 'refused' GROUP BY c.site`)
	bySite := make(map[string]int64, len(totals))
	for _, x := range totals {
		bySite[x.site] = x.bytes
	}
	return bySite, err
}

// Checking implements store.FileReader.
func (r *reader) Checking(ctx context.Context, limit int) ([]store.Attachment, error) {
	return list(ctx, r.db, scanFile, sqlChecking, limit)
}

// Stored implements store.FileReader.
func (r *reader) Stored(ctx context.Context, storage []string) (map[string]bool, error) {
	set, err := json.Marshal(storage)
	if err != nil {
		return nil, err
	}
	names, err := list(ctx, r.db, func(s scanner) (name string, err error) {
		err = s.Scan(&name)
		return name, err
	}, `SELECT storage FROM attachment WHERE state <> 'refused' AND storage IN (SELECT value FROM json_each(?))`, string(set))
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	return known, err
}
