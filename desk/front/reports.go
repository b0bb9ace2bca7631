package front

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for machines without a time zone database
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/api"
	"github.com/go-eddy/eddy/desk/mask"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// maxReportName bounds the ids and the time zone in the query of a report, in bytes.
const maxReportName = 64

// reportQuery reads the query of a report. The error is the text to show.
func reportQuery(v url.Values) (q store.ReportQuery, err error) {
	for name, values := range v {
		if len(values) > 1 && err == nil {
			err = fmt.Errorf("%.40q is given %d times, a report takes it once", name, len(values))
		}
	}
	number := func(name string) (n int64) {
		var bad error
		if n, bad = strconv.ParseInt(v.Get(name), 10, 64); bad != nil && err == nil {
			err = fmt.Errorf("%s is %.40q, it must be a time in milliseconds", name, v.Get(name))
		}
		return n
	}
	q = store.ReportQuery{
		From: number("from"), To: number("to"), By: store.By(v.Get("by")),
		Site: v.Get("site"), Group: v.Get("group"), Agent: v.Get("agent"), Tag: strings.TrimSpace(v.Get("tag")),
	}
	if v.Has("offset") {
		q.Offset = number("offset")
	}
	for _, name := range []string{"site", "group", "agent", "zone"} {
		if n := len(v.Get(name)); n > maxReportName && err == nil {
			err = fmt.Errorf("%s has %d bytes, the limit is %d", name, n, maxReportName)
		}
	}
	if n := utf8.RuneCountInString(q.Tag); n > proto.MaxTagChars && err == nil {
		err = fmt.Errorf("tag has %d characters, the limit is %d", n, proto.MaxTagChars)
	}
	if err == nil && (!q.By.Valid() || q.By == store.ByAll) {
		err = fmt.Errorf(`by is %.40q, it must be "day", "hour", "agent", "group", "site" or "tag"`, string(q.By))
	}
	if zone := v.Get("zone"); zone != "" && err == nil {
		if q.Zone, err = time.LoadLocation(zone); err != nil || zone == "Local" {
			err = fmt.Errorf("zone is %.40q, which is no time zone: it is a name such as Europe/Berlin", zone)
		}
	}
	return q, err
}

// checkFilter refuses a filter by what does not exist, and by a text that the reader may not see, because the numbers would
// confirm it.
func (f *Front) checkFilter(ctx context.Context, q *store.ReportQuery, private bool) error {
	cold := f.store.Cold()
	for _, c := range []struct {
		name, id string
		find     func() error
	}{
		{"site", q.Site, func() error { _, err := cold.Site(ctx, q.Site); return err }},
		{"group", q.Group, func() error {
			groups, err := cold.Groups(ctx)
			if err == nil && !slices.ContainsFunc(groups, func(g store.Group) bool { return g.ID == q.Group }) {
				err = store.ErrNotFound
			}
			return err
		}},
		{"agent", q.Agent, func() error { _, err := cold.AgentByID(ctx, q.Agent); return err }},
	} {
		if c.id == "" {
			continue
		}
		if err := c.find(); errors.Is(err, store.ErrNotFound) {
			return &proto.Error{Code: proto.CodeBadRequest, Text: fmt.Sprintf("%s is %.40q: there is none with this id.", c.name, c.id)}
		} else if err != nil {
			return err
		}
	}
	if !private && mask.Text(q.Tag) != q.Tag {
		return &proto.Error{Code: proto.CodeBadRequest, Text: "tag holds an address or a number, which is masked for you, so you cannot ask for it."}
	}
	return nil
}

// readReport reads a report for a program.
func (f *Front) readReport(ctx context.Context, v url.Values) (api.Report, error) {
	q, err := reportQuery(v)
	if err != nil {
		return api.Report{}, &proto.Error{Code: proto.CodeBadRequest, Text: err.Error()}
	}
	return f.runReport(ctx, q, false)
}

// runReport reads a report. Errors about the query and about the time it takes are *proto.Error. Tags are texts of agents,
// so that private is needed to see them as they are.
func (f *Front) runReport(ctx context.Context, q store.ReportQuery, private bool) (api.Report, error) {
	if err := f.checkFilter(ctx, &q, private); err != nil {
		return api.Report{}, err
	}
	rows, total, err := f.store.Background().ReportTotal(ctx, q)
	r := api.Report{Rows: append([]store.ReportRow{}, rows...), Total: total}
	for i := range r.Rows {
		if row := &r.Rows[i]; q.By == store.ByTag && !private {
			row.Key, row.Name = mask.Text(row.Key), mask.Text(row.Name)
		}
	}
	switch {
	case errors.Is(err, store.ErrConflict):
		return r, &proto.Error{Code: proto.CodeBadRequest, Text: "The period must end after it begins and have at most 400 days."}
	case err != nil && ctx.Err() != nil:
		return r, proto.Later(proto.CodeUnavailable, "The report took too long. Choose a shorter period.", 5*time.Second)
	}
	return r, err
}

// report answers with a report, as JSON or as CSV. Those who may not see the wall get their own numbers.
func (f *Front) report(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	q, err := reportQuery(r.URL.Query())
	if err != nil {
		f.callFailed(w, &proto.Error{Code: proto.CodeBadRequest, Text: err.Error()})
		return
	}
	own := !s.Agent.Role.Can(perm.ViewWall)
	if own {
		q.Agent = s.Agent.ID
	}
	report, err := f.runReport(r.Context(), q, s.Agent.Role.Can(perm.Private))
	if err != nil {
		f.callFailed(w, err)
		return
	}
	if r.URL.Query().Get("format") != "csv" {
		answer(w, struct {
			api.Report
			Own bool `json:"own"` // these are the numbers of the one who asks
		}{report, own})
		return
	}
	if err := f.audit(r.Context(), s.Agent.Actor(), store.AuditExport, "report by "+string(q.By), strconv.Itoa(len(report.Rows))+" rows", f.address(r)); err != nil {
		f.storeProblem(w, err)
		return
	}
	sendCSV(w, q.By, report.Rows)
}

// sendCSV sends a report as a file. Times are seconds.
func sendCSV(w http.ResponseWriter, by store.By, rows []store.ReportRow) {
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="report-by-`+string(by)+`.csv"`)
	h.Set("Cache-Control", "no-store")
	out := csv.NewWriter(w)
	_ = out.Write([]string{
		string(by), "name", "opened", "arrived", "abandoned", "closed", "contained", "handed_off", "rated", "score",
		"waits", "wait_mean_s", "wait_median_s", "wait_p90_s", "first_responses", "first_mean_s", "first_median_s", "first_p90_s",
		"handled", "handle_mean_s", "handle_median_s", "handle_p90_s", "rated_1", "rated_2", "rated_3", "rated_4", "rated_5", "with_target", "in_time",
	})
	for i := range rows {
		row := &rows[i]
		line := []string{cell(row.Key), cell(row.Name)}
		whole := func(numbers ...int64) {
			for _, n := range numbers {
				line = append(line, strconv.FormatInt(n, 10))
			}
		}
		whole(row.Opened, row.Arrived, row.Abandoned, row.Closed, row.Contained, row.Handoff, row.Rated)
		line = append(line, strconv.FormatFloat(row.Score, 'f', 2, 64))
		for _, s := range []store.Spread{row.Wait, row.First, row.Handle} {
			line = append(line, strconv.FormatInt(s.N, 10), seconds(s.Mean), seconds(s.Median), seconds(s.P90))
		}
		whole(row.Scores[:]...)
		whole(row.Targeted, row.Within)
		_ = out.Write(line)
	}
	out.Flush() // a failing connection closes itself
}

func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 1, 64) }

// cell keeps a spreadsheet from taking a text for a formula. Some drop what stands before it, and some take its wide forms,
// too.
func cell(s string) string {
	if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(s, " \u3000")); strings.ContainsRune("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20", first) {
		return "'" + s
	}
	return s
}
