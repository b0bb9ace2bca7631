package front

import (
	"net/http"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// named is something with an id that a report can be narrowed to.
type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// reportChoices are the values of the filters of the reports' page.
type reportChoices struct {
	Sites  []named  `json:"sites"`
	Groups []named  `json:"groups"`
	Agents []named  `json:"agents"` // none for those who get their own numbers only
	Tags   []string `json:"tags"`   // of the chats that the reader's reports count; others may be entered, too
}

// reportChoice answers with what the reports can be narrowed to.
func (f *Front) reportChoice(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	choices, err := f.choices(r, s)
	if err != nil {
		f.callFailed(w, err)
		return
	}
	answer(w, choices)
}

func (f *Front) choices(r *http.Request, s store.AgentSession) (c reportChoices, err error) {
	ctx, now := r.Context(), f.o.Now().UnixMilli()
	q := store.ReportQuery{From: max(now-store.MaxReportDays*24*time.Hour.Milliseconds(), 0), To: now, By: store.ByTag}
	c = reportChoices{Sites: []named{}, Groups: []named{}, Agents: []named{}, Tags: []string{}}
	if s.Agent.Role.Can(perm.ViewWall) {
		agents, err := f.store.Cold().Agents(ctx)
		if err != nil {
			return c, err
		}
		for _, a := range agents {
			c.Agents = append(c.Agents, named{a.ID, a.Name})
		}
	} else {
		q.Agent = s.Agent.ID
	}
	sites, err := f.store.Cold().Sites(ctx)
	if err != nil {
		return c, err
	}
	for i := range sites {
		c.Sites = append(c.Sites, named{sites[i].ID, sites[i].Name})
	}
	groups, err := f.store.Cold().Groups(ctx)
	if err != nil {
		return c, err
	}
	for i := range groups {
		c.Groups = append(c.Groups, named{groups[i].ID, groups[i].Name})
	}
	private := s.Agent.Role.Can(perm.Private)
	tags, err := f.runReport(ctx, q, private)
	for i := range tags.Rows {
		if tag := tags.Rows[i].Key; f.checkFilter(ctx, &store.ReportQuery{Tag: tag}, private) == nil {
			c.Tags = append(c.Tags, tag)
		}
	}
	return c, err
}
