package sqlstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// manyDays is a database in which chats went on for some days, tagged and rated.
func manyDays(t *testing.T) *lives {
	t.Helper()
	l := newLives(t)
	for i := range 4 {
		l.live("a word")
		conv, customer := l.begin("a word", true, false)
		l.do(store.Tag{Conv: conv, By: l.agents[0], Add: []string{"vip", fmt.Sprint("tag ", i)}})
		l.do(store.Move{Conv: conv, Trigger: store.CustomerClose, By: customer})
		l.do(store.Rate{Conv: conv, By: customer, Score: 1 + i})
		l.now = l.now.Add(25 * time.Hour)
	}
	return l
}

// reportsOf returns every report of a period and its filters.
func reportsOf(t *testing.T, db *DB, from, to time.Time, agent string) (all []store.ReportRow) {
	t.Helper()
	for _, by := range store.Kinds() {
		for _, q := range []store.ReportQuery{{}, {Tag: "VIP"}, {Agent: agent}, {Site: "none"}} {
			q.By, q.From, q.To = by, from.UnixMilli(), to.UnixMilli()
			rows, total, err := db.Background().ReportTotal(t.Context(), q)
			if err != nil {
				t.Fatal(by, err)
			}
			all = append(append(all, rows...), total)
		}
	}
	return all
}

func (l *lives) reports() []store.ReportRow {
	l.t.Helper()
	return reportsOf(l.t, l.DB, l.now.Add(-30*24*time.Hour), l.now.Add(time.Hour), l.agents[1].ID)
}

func (l *lives) count(query string) (n int) {
	l.t.Helper()
	if err := l.back.db.QueryRowContext(l.t.Context(), query).Scan(&n); err != nil {
		l.t.Fatal(query, err)
	}
	return n
}

func (l *lives) run(queries ...string) {
	l.t.Helper()
	for _, query := range queries {
		if err := l.write(l.t.Context(), func(tx *tx) error { return tx.exec(query) }); err != nil {
			l.t.Fatal(query, err)
		}
	}
}

const notPacked = `SELECT count(*) FROM (SELECT day FROM rollup_day WHERE facts IS NULL UNION ALL SELECT day FROM rollup_tag_day WHERE facts IS NULL)`

// Days that are over are packed, today is not; reports read the packed days and say the same; a change of a day counts at once,
// and a pack that was begun before it is not kept.
func TestPackedDays(t *testing.T) {
	l := manyDays(t)
	l.do(store.Tag{Conv: l.last(), By: l.agents[0], Add: []string{"vip"}})
	l.begin("a word", true, false) // today, which is not over
	want := l.reports()
	if err := l.PackDays(t.Context()); err != nil {
		t.Fatal(err)
	}
	today := l.now.UnixMilli() / dayMS
	if n := l.count(fmt.Sprintf(`SELECT count(*) FROM rollup_day WHERE facts IS NULL AND day < %d OR facts IS NOT NULL AND day >= %d`, today, today)); n != 0 {
		t.Errorf("%d days are packed too early or not at all", n)
	}
	if got := l.reports(); !reflect.DeepEqual(got, want) {
		t.Errorf("of packed days\n%+v, want\n%+v", got, want)
	}
	day := l.count(`SELECT min(day) FROM rollup_day WHERE facts IS NOT NULL`)
	rev := l.count(fmt.Sprintf(`SELECT rev FROM rollup_day WHERE day = %d`, day))
	before := l.count(notPacked)
	l.run(fmt.Sprintf(`UPDATE rollup_15m SET n = n + 1 WHERE slot / 86400000 = %d AND measure = 'opened'`, day))
	if n := l.count(notPacked); n != before+1 {
		t.Errorf("after a change %d days are not packed, before it %d", n, before)
	}
	if got := l.reports(); reflect.DeepEqual(got, want) {
		t.Error("a change of a packed day is not in the reports")
	}
	if err := l.packDay(t.Context(), rollupsOf(false), int64(day), int64(rev)); err != nil || l.count(notPacked) != before+1 {
		t.Errorf("a day was packed as it was before a change: %v", err)
	}
	if _, err := l.Recount(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.reports(); !reflect.DeepEqual(got, want) || l.count(notPacked) <= before {
		t.Errorf("after a recount\n%+v, want\n%+v", got, want)
	}
}

// last returns the conversation that was opened last.
func (l *lives) last() (id string) {
	l.t.Helper()
	if err := l.back.db.QueryRowContext(l.t.Context(), `SELECT id FROM conversation ORDER BY opened_at DESC, id DESC LIMIT 1`).Scan(&id); err != nil {
		l.t.Fatal(err)
	}
	return id
}

// Packed days alone are read where there are some: without their rows the reports are the same. Days whose bytes are
// damaged are read from the rows.
func TestPackedDaysAreRead(t *testing.T) {
	l := manyDays(t)
	l.now = l.now.Add(24 * time.Hour)
	want := l.reports()
	if err := l.PackDays(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := l.count(notPacked); n != 0 {
		t.Fatalf("%d days are not packed", n)
	}
	for _, damage := range []string{`zeroblob(9)`, `x''`, `substr(facts, 1, length(facts) / 2)`, `x'02' || substr(facts, 2)`, `facts || x'ff'`} {
		l.run(`CREATE TABLE kept AS SELECT * FROM rollup_day`, `UPDATE rollup_day SET facts = CAST(`+damage+` AS BLOB)`)
		if got := l.reports(); !reflect.DeepEqual(got, want) {
			t.Errorf("with days that are %s: %d rows, want %d, or others", damage, len(got), len(want))
		}
		l.run(`UPDATE rollup_day SET facts = (SELECT k.facts FROM kept k WHERE k.day = rollup_day.day)`, `DROP TABLE kept`)
	}
	l.run(`DROP TRIGGER rollup_15m_removed`, `DROP TRIGGER rollup_tag_15m_removed`, `DELETE FROM rollup_15m`, `DELETE FROM rollup_tag_15m`)
	if got := l.reports(); !reflect.DeepEqual(got, want) {
		t.Errorf("without the rows\n%+v, want\n%+v", got, want)
	}
}

// A database of before the packed days has the same reports after the upgrade, at once and when its days have been packed.
func TestReportsAfterUpgrade(t *testing.T) {
	l := manyDays(t)
	l.now = l.now.Add(24 * time.Hour)
	want := l.reports()
	path := filepath.Join(t.TempDir(), "old.db")
	oldDatabase(t, path, 18, `INSERT INTO setting VALUES ('store_id', 'the-id')`, `ATTACH '`+l.o.Path+`' AS now`,
		`INSERT INTO rollup_15m SELECT * FROM now.rollup_15m`, `INSERT INTO rollup_tag_15m SELECT * FROM now.rollup_tag_15m`)
	db := open(t, Options{Path: path, Now: func() time.Time { return l.now }})
	for i := range want {
		want[i].Name = "" // the old one has no accounts
	}
	check := func(when string) {
		t.Helper()
		got := reportsOf(t, db, l.now.Add(-30*24*time.Hour), l.now.Add(time.Hour), l.agents[1].ID)
		for i := range got {
			got[i].Name = ""
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n%+v, want\n%+v", when, got, want)
		}
	}
	check("after the upgrade")
	if err := db.PackDays(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("packed")
	var left int
	if err := db.back.db.QueryRowContext(t.Context(), notPacked).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d days are not packed, %v", left, err)
	}
}

// Reports sort nothing in the database, and look only at the rows of their period.
func TestReportPlan(t *testing.T) {
	l := newLives(t)
	for _, tags := range []bool{false, true} {
		rows, err := l.back.db.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+rollupsOf(tags).rolled, 0, 1, "", "", "")
		if err != nil {
			t.Fatal(err)
		}
		steps, err := collect(rows, func(s scanner) (step string, err error) {
			var x any
			return step, s.Scan(&x, &x, &x, &step)
		})
		plan := strings.Join(steps, "; ")
		if err != nil || strings.Contains(plan, "TEMP B-TREE") || !strings.Contains(plan, "SEARCH r USING PRIMARY KEY (slot>? AND slot<?)") {
			t.Errorf("tags %v: %s, %v", tags, plan, err)
		}
	}
}

// What was packed is the same after it was unpacked, to the last number; the memory of one day serves the next.
func TestPack(t *testing.T) {
	const day = 20_000
	var u unpacked
	for n := range 5 {
		p := newPacking(day)
		var want []fact
		var whose []origin
		for i := range n * 3 {
			o := origin{"site", fmt.Sprint("g", i%2), "", strings.Repeat("ä", i)}
			f := fact{day*dayMS + int64(i*7)*store.SlotQuarter, []string{store.MeasureWait, store.MeasureOpened}[i%2], i * 6, int64(i - 2), 1 << (4 * i)}
			want, whose = append(want, f), append(whose, o)
			p.add(&o, &f)
		}
		b := p.bytes()
		if later := summed(append([]byte{packVersion + 1}, b[1:len(b)-crc32.Size]...)); u.unpack(day, later) {
			t.Error("a pack of a later version was read")
		}
		if !u.unpack(day, b) || len(u.facts) != len(want) {
			t.Fatalf("%d facts: %d were unpacked", len(want), len(u.facts))
		}
		for i, f := range u.facts {
			if f.fact != want[i] || u.origins[f.of] != whose[i] {
				t.Errorf("%d: %+v of %+v, want %+v of %+v", i, f.fact, u.origins[f.of], want[i], whose[i])
			}
		}
	}
}

// summed adds the check sum of a packed day.
func summed(b []byte) []byte { return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)) }

// Bytes that are no packed day are refused, whatever they are.
func FuzzUnpack(f *testing.F) {
	p := newPacking(1)
	p.add(&origin{"s", "", "a", "tag"}, &fact{dayMS, store.MeasureWait, 3, 1, 4711})
	f.Add(p.bytes())
	f.Add([]byte{packVersion, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var u unpacked
		if !u.unpack(1, b) && !u.unpack(1, summed(b)) {
			return
		}
		for _, fact := range u.facts {
			if fact.slot < dayMS || fact.slot >= 2*dayMS || fact.of >= len(u.origins) {
				t.Errorf("%+v of %d origins", fact, len(u.origins))
			}
		}
	})
}

// Whatever changes in a day that is packed, the reports have at once.
func TestChangesOfPackedDays(t *testing.T) {
	l := manyDays(t)
	l.now = l.now.Add(24 * time.Hour)
	var first, customer string
	if err := l.back.db.QueryRowContext(t.Context(), `SELECT c.id, c.contact FROM conversation c WHERE score = 1 ORDER BY opened_at LIMIT 1`).Scan(&first, &customer); err != nil {
		t.Fatal(err)
	}
	tag := func(c store.Tag) func() {
		return func() {
			c.Conv, c.By = first, l.agents[0]
			l.do(c)
		}
	}
	for _, c := range []struct {
		what   string
		change func()
	}{
		{"a tag more", tag(store.Tag{Add: []string{"late"}})}, {"a tag less", tag(store.Tag{Remove: []string{"late"}})}, {"the tag again", tag(store.Tag{Add: []string{"late"}})},
		{"another score", func() { l.do(store.Rate{Conv: first, By: store.Actor{Kind: store.Customer, ID: customer}, Score: 5}) }},
		{"rows less", func() { l.run(`DELETE FROM rollup_15m WHERE measure = 'closed'`) }},
		{"rows of tags less", func() { l.run(`DELETE FROM rollup_tag_15m WHERE measure = 'closed'`) }},
	} {
		if err := l.PackDays(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := l.reports()
		c.change()
		got := l.reports()
		l.run(sqlForgets, sqlForgetsT)
		if want := l.reports(); !reflect.DeepEqual(got, want) || reflect.DeepEqual(got, before) {
			t.Errorf("%s: the reports of packed days are not those of the rows, or did not change", c.what)
		}
	}
}
