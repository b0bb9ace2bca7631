package hub

import (
	"slices"

	"github.com/go-eddy/eddy/desk/store"
)

// line says which agents the router may give a conversation to. Waiting conversations of the same line stand behind each
// other, so that the router looks at the first of each line instead of the whole queue.
type line struct {
	group  string
	skills string // as in store.Conversation; "" = none, or given up
	lang   string // of the customer; "" = any agent will do
}

// wants reports whether a line asks for more than the group.
func (l line) wants() bool { return l.skills != "" || l.lang != "" }

// lineOf returns the line of a conversation. A language counts only if an agent of the group says that it speaks it.
func (r *roster) lineOf(c *store.Conversation) line {
	l := line{group: c.Group}
	if c.Relaxed {
		return l
	}
	l.skills = c.Skills
	if lang := store.Language(c.Locale); r.spoken[[2]string{c.Group, lang}] {
		l.lang = lang
	}
	return l
}

// knows reports whether a member has what a line asks for besides the group. A member that names no language speaks all.
func (m *member) knows(l line) bool {
	if l.lang != "" && m.Languages != "" && !slices.Contains(store.List(m.Languages), l.lang) {
		return false
	}
	has := store.List(m.Skills)
	for _, s := range store.List(l.skills) {
		if !slices.Contains(has, s) {
			return false
		}
	}
	return true
}

// in reports whether a member belongs to a group; everybody belongs to "".
func (m *member) in(group string) bool { return group == "" || slices.Contains(m.Groups, group) }

// hear notes which languages the members of each group say they speak, and reports whether that has changed.
func (r *roster) hear() (changed bool) {
	spoken := make(map[[2]string]bool)
	for _, m := range r.members {
		if !m.takesChats() {
			continue
		}
		for _, lang := range store.List(m.Languages) {
			spoken[[2]string{"", lang}] = true
			for _, g := range m.Groups {
				spoken[[2]string{g, lang}] = true
			}
		}
	}
	for key := range spoken {
		changed = changed || !r.spoken[key]
	}
	changed = changed || len(spoken) != len(r.spoken)
	r.spoken = spoken
	return changed
}

// enqueue puts a waiting conversation into the queue and into its line.
func (d *directory) enqueue(e *entry) {
	i, _ := d.find(e.conv)
	d.queue = slices.Insert(d.queue, i, e)
	e.line = d.lineOf(&e.conv)
	all := d.lines[e.line]
	i, _ = place(all, &e.conv)
	d.lines[e.line] = slices.Insert(all, i, e)
}

// dequeue takes a conversation out of both, before it changes.
func (d *directory) dequeue(e *entry) {
	if i, ok := d.find(e.conv); ok {
		d.queue = slices.Delete(d.queue, i, i+1)
	}
	all := d.lines[e.line]
	if i, ok := place(all, &e.conv); ok {
		all = slices.Delete(all, i, i+1)
	}
	if len(all) == 0 {
		delete(d.lines, e.line)
	} else {
		d.lines[e.line] = all
	}
}

// realign forms the lines anew after the staff has changed.
func (d *directory) realign() {
	d.lines = make(map[line][]*entry)
	for _, e := range d.queue {
		e.line = d.lineOf(&e.conv)
		d.lines[e.line] = append(d.lines[e.line], e)
	}
}

// restaffed applies a change of what the staff can do, or of settings, to the open conversations.
func (q *queue) restaffed() {
	q.dir.realign()
	for _, e := range q.dir.open {
		q.replan(e)
	}
}

// place returns where a conversation is, or belongs, among entries in queue order.
func place(all []*entry, c *store.Conversation) (int, bool) {
	return slices.BinarySearchFunc(all, c, func(e *entry, c *store.Conversation) int { return e.conv.CompareQueue(c) })
}

// relaxing plans the end of what a waiting conversation asks of its agent: after the time of its group, or at once if no
// agent of the group who takes chats has it. Agents pick from a manual queue as they like, so nothing ends there.
func (q *queue) relaxing(n *next, e *entry) {
	settings := q.settings(e.conv.Group)
	if !e.line.wants() || settings.Strategy == store.Manual {
		return
	}
	missed := store.List(e.line.skills)
	if e.line.lang != "" {
		missed = append(missed, e.line.lang)
	}
	relax := store.Relax{Conv: e.conv.ID, Rev: e.conv.Rev, Missed: missed}
	due := e.conv.QueuedAt
	if relax.Nobody = !q.anybody(e.line); !relax.Nobody {
		due += settings.Relaxes().Milliseconds()
	}
	n.sooner(due, func() store.Command { return relax })
}

// anybody reports whether there is an agent for a line, present or not.
func (q *queue) anybody(l line) bool {
	for _, m := range q.roster.members {
		if m.takesChats() && m.in(l.group) && m.knows(l) {
			return true
		}
	}
	return false
}
