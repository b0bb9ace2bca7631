package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// checkSet compares what somebody has set with what is stored: the last value that was acknowledged, or one whose answer
// was lost.
func (p *person) checkSet(db *sqlstore.DB) {
	p.m.t.Helper()
	kept := make(map[string]string)
	if p.staff {
		all, err := db.Cold().SavedFilters(p.m.ctx, p.Me().ID)
		p.m.ok(err)
		for _, f := range all {
			kept[f.Name] = f.Fields["tag"]
		}
	}
	for what, w := range p.set {
		value, words := "", strings.Fields(what)
		switch words[0] {
		case "filter":
			value = kept[words[1]]
		case "patch":
			c, err := db.Cold().Contact(p.m.ctx, words[1])
			p.m.ok(err)
			value = c.Attributes[p.name]
		default:
			c, err := db.Cold().Conversation(p.m.ctx, words[1])
			p.m.ok(err)
			switch {
			case words[0] == "rate" && c.Score > 0:
				value = fmt.Sprint(c.Score, " ", c.Comment)
			case words[0] == "tag" && slices.Contains(c.TagList(), words[2]):
				value = "yes"
			case words[0] == "tag" && w.last != "":
				value = "no"
			}
		}
		if !w.may(value) {
			p.m.t.Errorf("%s: %s is %q, acknowledged %q, without an answer %q (-model-seed %d)", p.name, what, value, w.last, w.lost, p.m.seed)
		}
		p.m.count("kept " + words[0])
	}
}

// checkOutbox: programs are told each event of each conversation once and in order, and the tags of a conversation are
// those that they were told. Nobody has read further than there is.
func (m *model) checkOutbox(db *sqlstore.DB) {
	m.t.Helper()
	page, err := db.Cold().Outbox(m.ctx, 0, math.MaxInt32)
	m.ok(err)
	told, tags, rated := make(map[string]uint64), make(map[string][]string), make(map[string]bool)
	for _, row := range page.Rows {
		if !row.Type.Valid() { // programs are not told
			continue
		}
		switch row.Type {
		case store.EventContact, store.EventTargetWarned, store.EventTargetMissed: // see checkTargets
		case store.EventRated:
			rated[row.Conv] = true
		case store.EventTags:
			tags[row.Conv] = slices.DeleteFunc(append(tags[row.Conv], row.Tags.Added...), func(tag string) bool { return slices.Contains(row.Tags.Removed, tag) })
		default:
			if told[row.Conv]++; row.Event != told[row.Conv] {
				m.t.Errorf("%s: event %d is told after %d", row.Conv, row.Event, told[row.Conv]-1)
			}
		}
	}
	for _, id := range m.convs {
		c, err := db.Cold().Conversation(m.ctx, id)
		m.ok(err)
		if told[id] != c.LastSeq || rated[id] != (c.Score > 0) {
			m.t.Errorf("%s: %d of %d events are told, rated %v with score %d", id, told[id], c.LastSeq, rated[id], c.Score)
		}
		has, said := c.TagList(), tags[id]
		slices.Sort(has)
		slices.Sort(said)
		if !slices.Equal(has, said) {
			m.t.Errorf("%s: tags %q, told %q", id, has, said)
		}
		if k := c.Marks; k.Customer.Read > k.Customer.Delivered || k.Customer.Delivered > c.LastPSeq || k.Staff.Read > k.Staff.Delivered || k.Staff.Delivered > c.LastSeq {
			m.t.Errorf("%s: marks %+v of %d and %d events", id, k, c.LastPSeq, c.LastSeq)
		}
	}
}
