package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlBeat       = `INSERT INTO node (id, until, told, about) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO UPDATE SET until = ?2, told = ?3, about = ?4`
	sqlKnown      = `SELECT count(*) FROM node WHERE id = ?`
	sqlEndNode    = `UPDATE node SET until = least(until, ?) WHERE id = ?`
	sqlDeadNode   = `SELECT id FROM (SELECT id FROM node WHERE until <= ? UNION SELECT node AS id FROM presence WHERE node NOT IN (SELECT id FROM node)) d WHERE id <> ? ORDER BY id LIMIT 1`
	sqlForgetNode = `DELETE FROM node WHERE id = ? AND until <= ?`
	sqlSlowest    = `SELECT min(told) FROM node WHERE until > ?`

	sqlServers = `SELECT n.id, n.until, n.about,
		(SELECT count(*) FROM presence p WHERE p.node = n.id AND p.kind = 'agent'), (SELECT count(*) FROM presence p WHERE p.node = n.id AND p.kind = 'customer'),
		coalesce((SELECT string_agg(l.name, ' ' ORDER BY l.name) FROM lease l WHERE l.holder = n.id AND l.until > ?1), '')
		FROM node n WHERE n.until > ?1 ORDER BY n.id`

	sqlAppear  = `INSERT INTO presence (kind, id, node) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`
	sqlVanish  = `DELETE FROM presence WHERE kind = ? AND id = ? AND node = ?`
	sqlNodesOf = `coalesce((SELECT string_agg(p.node, ' ' ORDER BY p.node) FROM presence p WHERE p.kind = `
	sqlWhere   = `SELECT coalesce(string_agg(p.node, ' ' ORDER BY p.node), '') FROM presence p WHERE p.kind = ? AND p.id = ?`
	sqlThere   = `SELECT kind, id FROM presence WHERE node = ? ORDER BY kind, id LIMIT ?`
	sqlAllGone = `UPDATE conversation SET left_at = ? WHERE contact = ? AND state = 'queued' AND left_at = 0`
	sqlBack    = `UPDATE conversation SET left_at = 0 WHERE contact = ? AND state = 'queued' AND left_at <> 0`

	stateColumns = `'agent', s.agent, s.status, NOT s.accepting, s.missed, s.gone_at, ` + sqlNodesOf + `'agent' AND p.id = s.agent), '') FROM agent_state s `
	sqlStateOf   = `SELECT ` + stateColumns + `WHERE s.agent = ?`

	sqlLost      = `SELECT t.id FROM bot_turn t` + sqlOpenTurns + `AND t.node NOT IN (SELECT id FROM node) LIMIT ?`
	sqlAdoptTurn = `UPDATE bot_turn SET node = ? WHERE id = ?`
)

// Node implements store.Nodes.
func (db *DB) Node() string {
	if db.o.Alone {
		return ""
	}
	return db.work.tx.me
}

// Beat implements store.Nodes. Its transaction has read how far the feed is, which helps a process that cannot listen.
func (db *DB) Beat(ctx context.Context, life time.Duration, told int64, about store.About) (bool, error) {
	if db.o.Alone {
		return false, nil
	}
	said, err := json.Marshal(about)
	if err != nil {
		return false, err
	}
	var last int64
	anew, err := written(ctx, db, func(t *tx) (bool, error) {
		last = t.seq
		var known int
		if err := t.row(sqlKnown, t.me).Scan(&known); err != nil {
			return false, err
		}
		return known == 0, t.exec(sqlBeat, t.me, t.now()+life.Milliseconds(), told, string(said))
	})
	if err == nil {
		db.work.hear(last) // what this process has committed up to it has been told
	}
	return anew, err
}

// Servers implements store.NodeReader.
func (r *reader) Servers(ctx context.Context, now time.Time) ([]store.Server, error) {
	all, err := list(ctx, r.db, scanServer, sqlServers, now.UnixMilli())
	slices.SortFunc(all, func(a, b store.Server) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node)) })
	return all, err
}

func scanServer(s scanner) (one store.Server, err error) {
	var about, leases string
	if err := s.Scan(&one.Node, &one.Until, &about, &one.Agents, &one.Customers, &leases); err != nil {
		return one, err
	}
	if about != "" { // a program of before says nothing
		err = json.Unmarshal([]byte(about), &one.About)
	}
	one.Leases = strings.Fields(leases)
	return one, err
}

// EndNode implements store.Nodes.
func (db *DB) EndNode(ctx context.Context) error {
	if db.o.Alone {
		return nil
	}
	return db.write(ctx, func(t *tx) error { return t.exec(sqlEndNode, t.now(), t.me) })
}

// SetHere implements store.Nodes.
func (db *DB) SetHere(ctx context.Context, all []store.Here) error {
	if db.o.Alone || len(all) == 0 {
		return nil
	}
	return db.write(ctx, func(t *tx) error {
		for _, h := range all {
			if err := t.setHere(h); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tx) setHere(h store.Here) error {
	if h.GoneAt != 0 {
		return t.vanish(t.me, &store.Presence{Kind: store.Customer, ID: h.Contact}, h.GoneAt)
	}
	if err := t.exec(sqlBack, h.Contact); err != nil {
		return err
	}
	return t.appear(store.Customer, h.Contact)
}

// Bury implements store.Nodes.
func (db *DB) Bury(ctx context.Context) (bool, error) {
	if db.o.Alone {
		return false, nil
	}
	return written(ctx, db, func(t *tx) (bool, error) { return t.bury() })
}

func (t *tx) bury() (more bool, err error) {
	now := t.now()
	var node string
	if err := notFound(t.row(sqlDeadNode, now, t.me).Scan(&node)); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return false, err
	}
	there, err := all(t, func(s scanner) (p store.Presence, err error) { return p, s.Scan(&p.Kind, &p.ID) }, sqlThere, node, store.BuryRows)
	if err != nil {
		return false, err
	}
	for i := range there {
		if err := t.vanish(node, &there[i], now); err != nil && !errors.Is(err, store.ErrNotFound) { // the account may be gone
			return false, err
		}
	}
	if len(there) == store.BuryRows {
		return true, nil
	}
	return true, t.exec(sqlForgetNode, node, now)
}

// appear notes that somebody has a connection to this server, and tells the others. Alone nothing is noted.
func (t *tx) appear(kind store.ActorKind, id string) error {
	if t.db.o.Alone {
		return nil
	}
	if err := t.exec(sqlAppear, string(kind), id, t.me); err != nil {
		return err
	}
	return t.tellPresence(kind, id)
}

// elsewhere notes that somebody has no connection to a server any more, and reports whether there is one to another.
func (t *tx) elsewhere(node string, kind store.ActorKind, id string) (bool, error) {
	if t.db.o.Alone {
		return false, nil
	}
	if err := t.exec(sqlVanish, string(kind), id, node); err != nil {
		return false, err
	}
	var others string
	err := t.row(sqlWhere, string(kind), id).Scan(&others)
	return others != "", err
}

// vanish ends the presence of somebody at a server.
func (t *tx) vanish(node string, p *store.Presence, at int64) error {
	others, err := t.elsewhere(node, p.Kind, p.ID)
	switch {
	case err != nil || others:
	case p.Kind == store.Agent:
		err = one(t.change(sqlGone, at, false, p.ID))
	default:
		err = t.exec(sqlAllGone, at, p.ID)
	}
	if err != nil {
		return err
	}
	return t.tellPresence(p.Kind, p.ID)
}

// tellPresence writes a row of the feed about where somebody is connected, and what an agent has chosen.
func (t *tx) tellPresence(kind store.ActorKind, id string) error {
	if t.db.o.Alone {
		return nil
	}
	p, what := store.Presence{Kind: kind, ID: id}, store.EventPresent
	var err error
	if kind == store.Agent {
		what = store.EventAgent
		p, err = scanPresence(t.row(sqlStateOf, id))
	} else {
		var nodes string
		err = t.row(sqlWhere, string(kind), id).Scan(&nodes)
		p.Nodes = strings.Fields(nodes)
	}
	if err != nil {
		return err
	}
	t.part.Presences = append(t.part.Presences, p)
	return t.tell(store.OutboxRow{Type: what, Contact: id})
}

func scanPresence(s scanner) (p store.Presence, err error) {
	var nodes string
	err = s.Scan(&p.Kind, &p.ID, &p.Status, &p.NoChats, &p.Missed, &p.GoneAt, &nodes)
	p.Nodes = strings.Fields(nodes)
	return p, notFound(err)
}

// AdoptTurns implements store.Nodes.
func (db *DB) AdoptTurns(ctx context.Context) ([]string, error) {
	if db.o.Alone {
		return nil, nil
	}
	return written(ctx, db, func(t *tx) ([]string, error) {
		lost, err := all(t, func(s scanner) (id string, err error) { return id, s.Scan(&id) }, sqlLost, store.BuryRows)
		for i := 0; err == nil && i < len(lost); i++ {
			err = t.exec(sqlAdoptTurn, t.me, lost[i])
		}
		return lost, err
	})
}

// Presences implements store.NodeReader.
func (r *reader) Presences(ctx context.Context) ([]store.Presence, error) {
	return list(ctx, r.db, func(s scanner) (p store.Presence, err error) {
		var nodes string
		err = s.Scan(&p.Kind, &p.ID, &nodes)
		p.Nodes = strings.Fields(nodes)
		return p, err
	}, `SELECT kind, id, string_agg(node, ' ' ORDER BY node) FROM presence GROUP BY kind, id ORDER BY kind, id`)
}
