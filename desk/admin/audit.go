package admin

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const auditPage = 50

// auditList is one page of the audit log.
type auditList struct {
	Rows    []store.AuditRow
	Agents  []store.AgentAccount
	Actions []string
	Older   string // address of the next page, with older lines; "" = none
	Newest  bool
	names   map[string]string // names of the objects of lines, by id
}

// Name returns the present name of the object of a line, "" if it is gone or has none.
func (l auditList) Name(target string) string {
	_, id, _ := strings.Cut(target, " ")
	return l.names[id]
}

// actions returns the actions to choose from.
func actions() []string {
	return []string{
		store.AuditLogin, store.AuditLoginFailed, store.AuditLogout, store.AuditRevoke, store.AuditPassword, store.AuditDenied, store.AuditRead,
		store.AuditWatch, store.AuditSearch, store.AuditOverride, store.AuditForceState, store.AuditBlock, store.AuditUnblock,
		store.AuditCreate, store.AuditUpdate, store.AuditDelete, store.AuditRole, store.AuditSecret, store.AuditExport, store.AuditErase, store.AuditMerge, store.AuditReset, store.AuditMail,
	}
}

func (p *Pages) audit(q *request) {
	query := q.r.URL.Query()
	q.form.values = query
	before, err := strconv.ParseInt(query.Get("before"), 10, 64)
	if err != nil {
		before = 0
	}
	ask := store.AuditQuery{
		Who: q.line("who"), Action: q.line("action"), Target: q.line("target"), Before: before, Limit: auditPage + 1,
		From: q.day("from", 0), To: q.day("to", 1),
	}
	page := auditList{Actions: actions(), Newest: before == 0}
	if q.Failed() == 0 {
		if page.Rows, err = p.o.Store.Cold().Audit(q.ctx(), ask); err != nil {
			q.failed(err)
			return
		}
	}
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	page.Agents, page.names = all.Agents, all.names()
	if len(page.Rows) > auditPage {
		page.Rows = page.Rows[:auditPage]
		next := url.Values{"before": {strconv.FormatInt(page.Rows[auditPage-1].ID, 10)}}
		for _, field := range []string{"who", "action", "target", "from", "to"} {
			if v := q.line(field); v != "" {
				next.Set(field, v)
			}
		}
		page.Older = "/admin/audit?" + next.Encode()
	}
	status := http.StatusOK
	if q.Failed() > 0 {
		status = http.StatusUnprocessableEntity
	}
	q.render(status, "audit", page)
}

// day reads a date of the server's zone and returns the beginning of the day later days after it, 0 for an empty field.
func (q *request) day(field string, later int) int64 {
	s := q.line(field)
	if s == "" {
		return 0
	}
	t, err := time.ParseInLocation(time.DateOnly, s, time.Local)
	if err != nil || t.Year() < 1970 {
		q.wrong(field, q.T("reason.date"))
		return 0
	}
	return t.AddDate(0, 0, later).UnixMilli()
}
