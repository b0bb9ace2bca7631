package sqlstore

import (
	"context"
	"errors"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlExpired   = `SELECT ` + convColumns + convFrom + `WHERE c.site = ? AND c.state = 'closed' AND c.closed_at < ? ORDER BY c.closed_at LIMIT 1`
	sqlFilesHeld = `SELECT ` + fileColumns + fileFrom + `WHERE a.conversation = ? ORDER BY a.id LIMIT ?`
	sqlDropFiles = `DELETE FROM attachment WHERE id IN (SELECT id FROM attachment WHERE conversation = ? LIMIT ?)`
	sqlDropTurns = `DELETE FROM bot_turn WHERE id IN (SELECT id FROM bot_turn WHERE conversation = ? LIMIT ?)`
	sqlFirstSeqs = `SELECT coalesce(max(seq), 0) FROM (SELECT seq FROM message WHERE conversation = ? ORDER BY seq LIMIT ?) m`
	sqlDropMsgs  = `DELETE FROM message WHERE conversation = ? AND seq <= ?`
	sqlDropTags  = `DELETE FROM conversation_tag WHERE conversation = ?`
	sqlDropSeats = `DELETE FROM assignment WHERE conversation = ?`
	sqlDropMails = `DELETE FROM mail WHERE conversation = ?`
	sqlDropConv  = `DELETE FROM conversation WHERE id = ?`
)

// DropClosed implements store.Files.
func (db *DB) DropClosed(ctx context.Context, site string, before int64, limit int) (store.Dropped, error) {
	dropped := make(chan store.Dropped, 1) // as in DecideAttachment
	err := db.write(ctx, func(t *tx) error {
		d, err := t.dropClosed(site, before, limit)
		if err == nil {
			dropped <- d
		}
		return err
	})
	if err != nil {
		return store.Dropped{}, err
	}
	return <-dropped, nil
}

func (t *tx) dropClosed(site string, before int64, limit int) (d store.Dropped, err error) {
	for limit > 0 {
		c, err := scanConv(t.row(sqlExpired, site, before))
		if errors.Is(err, store.ErrNotFound) {
			return d, nil
		}
		if err != nil {
			return d, err
		}
		if limit, err = t.dropConv(&c, limit, &d); err != nil {
			return d, err
		}
	}
	d.More = true
	return d, nil
}

// dropConv removes at most limit rows of a conversation and, with the last of them, the conversation itself. It returns
// what is left of limit.
func (t *tx) dropConv(c *store.Conversation, limit int, d *store.Dropped) (int, error) {
	files, n, err := t.dropParts(c.ID, limit)
	if err != nil {
		return limit, err
	}
	d.Files = append(d.Files, files...)
	if limit -= n; limit <= 0 { // there may be more of it
		return 0, nil
	}
	if err := t.dropHead(c); err != nil {
		return limit, err
	}
	d.Conversations++
	return limit - 1, nil
}

// dropParts removes at most limit files, turns and messages of a conversation. It returns the files and how many rows
// that were.
func (t *tx) dropParts(conv string, limit int) (files []store.Attachment, rows int, err error) {
	if files, err = all(t, scanFile, sqlFilesHeld, conv, limit); err != nil {
		return nil, 0, err
	}
	for _, query := range []string{sqlDropFiles, sqlDropTurns} {
		n, err := t.change(query, conv, limit-rows)
		if err != nil {
			return nil, 0, err
		}
		rows += int(n)
	}
	var last int64
	if err := t.row(sqlFirstSeqs, conv, limit-rows).Scan(&last); err != nil {
		return nil, 0, err
	}
	if err := t.exec(t.db.on.dialect().dropWords, conv, last); err != nil {
		return nil, 0, err
	}
	n, err := t.change(sqlDropMsgs, conv, last)
	return files, rows + int(n), err
}

// dropHead removes the row of a conversation that has no messages any more. Reports keep what it has counted.
func (t *tx) dropHead(c *store.Conversation) error {
	if err := t.rollGone(c.ID); err != nil {
		return err
	}
	if err := t.flush(); err != nil { // there may be rows to delete
		return err
	}
	for _, query := range []string{sqlDropTags, sqlDropSeats, sqlDropMails, sqlDropTag, sqlDropHook, sqlDropConv} {
		if err := t.exec(query, c.ID); err != nil {
			return err
		}
	}
	return nil
}
