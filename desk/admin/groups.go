package admin

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

func (p *Pages) groups(q *request) {
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	q.render(http.StatusOK, "groups", all)
}

// groupPage is the form of a group; ID is "" for a new one.
type groupPage struct {
	*lists
	ID, Title string
}

// Strategies returns the strategies to choose from.
func (groupPage) Strategies() []string {
	return []string{"least_busy", "round_robin", "sticky", "manual"}
}

func (p *Pages) newGroup(q *request) {
	shown, err := q.groupShown(new(store.Group))
	if err != nil {
		q.failed(err)
		return
	}
	q.fill(shown)
	q.groupForm(http.StatusOK, store.Group{})
}

func (q *request) groupForm(status int, g store.Group) {
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	q.render(status, "group", groupPage{all, g.ID, g.Name})
}

// groupEntered fills a group with the values of the form, and returns the chosen members.
func (q *request) groupEntered(g *store.Group) ([]string, error) {
	g.Name = q.line("name")
	g.Settings = store.GroupSettings{
		Strategy: q.Value("strategy"), MaxQueue: int(q.number("max_queue")), Accept: q.number("accept") * 1000,
		StickyDays: int(q.number("sticky_days")), StickyWait: q.number("sticky_wait") * 1000,
		Hours: q.hoursEntered(),
		Relax: q.number("relax") * 1000, Away: q.number("away") * time.Minute.Milliseconds(),
		Target: q.number("target") * 1000, TargetShare: int(q.number("target_share")),
	}
	if err := g.Check(); err != nil {
		q.failed(err)
	}
	agents, err := q.p.o.Store.Cold().Agents(q.ctx())
	if err != nil {
		return nil, err
	}
	var chosen []string
	for _, a := range agents {
		if q.Has("members", a.ID) {
			chosen = append(chosen, a.ID)
		}
	}
	return chosen, nil
}

func (p *Pages) createGroup(q *request) {
	p.storeGroup(q, store.Group{}, func(g *store.Group) (err error) {
		*g, err = p.o.Store.CreateGroup(q.ctx(), *g)
		return err
	})
}

func (p *Pages) saveGroup(q *request) {
	done, ok := q.alone()
	if !ok {
		return
	}
	defer done()
	g, ok := q.group()
	if !ok {
		return
	}
	stored, err := q.groupShown(&g)
	if err != nil {
		q.failed(err)
		return
	}
	q.outdated(stored)
	p.storeGroup(q, g, func(g *store.Group) error { return p.o.Store.UpdateGroup(q.ctx(), *g) })
}

// storeGroup makes or changes a group and its members.
func (p *Pages) storeGroup(q *request, before store.Group, write func(*store.Group) error) {
	g := before
	members, err := q.groupEntered(&g)
	if err == nil && q.Failed() == 0 {
		if err = write(&g); err == nil {
			err = p.o.Store.SetMembers(q.ctx(), g.ID, members)
		}
	}
	if errors.Is(err, store.ErrExists) {
		q.wrong("name", q.T("reason.taken"))
	} else if err != nil && !q.failed(err) {
		return
	}
	if q.Failed() > 0 {
		q.groupForm(q.status(), before)
		return
	}
	action, done := store.AuditUpdate, "saved"
	if before.ID == "" {
		action, done = store.AuditCreate, "created"
	}
	if q.audit(action, "group "+g.ID, g.Name+", "+strconv.Itoa(len(members))+" members") {
		q.see("/admin/groups/"+g.ID, done)
	}
}

func (q *request) group() (store.Group, bool) {
	groups, err := q.p.o.Store.Cold().Groups(q.ctx())
	if err == nil {
		i := slices.IndexFunc(groups, func(g store.Group) bool { return g.ID == q.r.PathValue("id") })
		if i >= 0 {
			return groups[i], true
		}
		err = store.ErrNotFound
	}
	q.failed(err)
	return store.Group{}, false
}

func (p *Pages) editGroup(q *request) {
	g, ok := q.group()
	if ok {
		q.showGroup(http.StatusOK, g)
	}
}

func (q *request) showGroup(status int, g store.Group) {
	shown, err := q.groupShown(&g)
	if err != nil {
		q.failed(err)
		return
	}
	q.show(shown)
	q.groupForm(status, g)
}

// groupShown returns the fields of a group.
func (q *request) groupShown(g *store.Group) (url.Values, error) {
	members, err := q.p.o.Store.Cold().Members(q.ctx())
	shown := url.Values{
		"name": {g.Name}, "strategy": {g.Settings.Strategy}, "max_queue": {unlessZero(int64(g.Settings.MaxQueue))}, "accept": {unlessZero(g.Settings.Accept / 1000)},
		"sticky_days": {whole(g.Settings.StickyFor(), 24*time.Hour)}, "sticky_wait": {whole(g.Settings.StickyWaits(), time.Second)},
		"relax": {whole(g.Settings.Relaxes(), time.Second)}, "away": {whole(g.Settings.AwayFor(), time.Minute)},
		"target": {unlessZero(g.Settings.Target / 1000)}, "target_share": {strconv.Itoa(cmp.Or(g.Settings.TargetShare, store.DefaultTargetShare))},
		"members": slices.Sorted(slices.Values(members[g.ID])),
	}
	showHours(shown, &g.Settings.Hours)
	return shown, err
}

// unlessZero shows a number whose 0 means "not set".
func unlessZero(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func (p *Pages) deleteGroup(q *request) {
	g, ok := q.group()
	if !ok {
		return
	}
	err := p.o.Store.DeleteGroup(q.ctx(), g.ID)
	switch {
	case errors.Is(err, store.ErrInUse):
		q.wrong("delete", q.T("groups.inUse"))
		q.showGroup(http.StatusConflict, g)
	case err != nil:
		q.failed(err)
	default:
		if q.audit(store.AuditDelete, "group "+g.ID, g.Name) {
			q.see("/admin/groups", "deleted")
		}
	}
}
