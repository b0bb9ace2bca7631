package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// testAudit: lines of the audit log come back newest first, by page and by filter. Texts whose length others chose are
// cut.
func testAudit(t *testing.T, r *rig) {
	ctx := t.Context()
	before := time.Now().UnixMilli()
	lin, moe := r.lin.Actor(), r.moe.Actor()
	for i := range 7 {
		who, action := lin, store.AuditRead
		if i%3 == 0 {
			who, action = moe, store.AuditBlock
		}
		r.must(store.Record(ctx, r, store.Audit{Who: who, Action: action, Target: fmt.Sprint("contact ", i%2), Detail: fmt.Sprint("line ", i), IP: "10.0.0.0/24"}))
	}
	details := func(q store.AuditQuery) (got string) {
		t.Helper()
		rows, err := r.Cold().Audit(ctx, q)
		r.must(err)
		for _, row := range rows {
			got += strings.TrimPrefix(row.Detail, "line ")
			if row.Time < before || row.IP != "10.0.0.0/24" || row.Who.Name == "" {
				t.Errorf("%+v", row)
			}
		}
		return got
	}
	for name, c := range map[string]struct {
		q    store.AuditQuery
		want string
	}{
		"all":            {store.AuditQuery{}, "6543210"},
		"by who":         {store.AuditQuery{Who: moe.ID}, "630"},
		"by action":      {store.AuditQuery{Action: store.AuditRead}, "5421"},
		"by target":      {store.AuditQuery{Target: "contact 1"}, "531"},
		"by both":        {store.AuditQuery{Who: lin.ID, Target: "contact 0"}, "42"},
		"since":          {store.AuditQuery{From: before}, "6543210"},
		"in the future":  {store.AuditQuery{From: before + time.Hour.Milliseconds()}, ""},
		"in the past":    {store.AuditQuery{To: before}, ""},
		"page":           {store.AuditQuery{Limit: 2}, "65"},
		"too large":      {store.AuditQuery{Limit: 1 << 20}, "6543210"},
		"nobody's":       {store.AuditQuery{Who: "' OR 1=1 --"}, ""},
		"unknown action": {store.AuditQuery{Action: "nothing"}, ""},
	} {
		if got := details(c.q); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	var all string
	for q := (store.AuditQuery{Limit: 3}); ; {
		rows, err := r.Cold().Audit(ctx, q)
		r.must(err)
		if len(rows) == 0 {
			break
		}
		for _, row := range rows {
			all += strings.TrimPrefix(row.Detail, "line ")
		}
		q.Before = rows[len(rows)-1].ID
	}
	if all != "6543210" {
		t.Errorf("page by page: %q", all)
	}
	r.must(store.Record(ctx, r, store.Audit{Who: store.Actor{Kind: store.Agent, ID: strings.Repeat("i", 9000), Name: strings.Repeat("名", 9000)},
		Action: store.AuditLoginFailed, Target: strings.Repeat("t", 9000), Detail: strings.Repeat("d", 9000)}))
	rows, err := r.Cold().Audit(ctx, store.AuditQuery{Limit: 1})
	r.must(err)
	if a := rows[0]; len(a.Who.ID)+len(a.Who.Name)+len(a.Target)+len(a.Detail) > 4000 || a.Detail == "" {
		t.Errorf("kept %d bytes of detail, %d of the name", len(a.Detail), len(a.Who.Name))
	}
}
