package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/store"
)

func note(conv string, from store.Actor, body string) store.Append {
	return store.Append{Conv: conv, From: from, ClientID: uuid.NewString(), Body: body, Note: true}
}

// Marks only go up, never above what is committed, and read carries delivered with it.
func testMarks(t *testing.T, r *rig) {
	ann, lin := r.visitor(), r.lin.Actor()
	conv := r.assigned(ann, r.lin).ID // 1 opened, 2 taken
	r.do(note(conv, lin, "n"))        // 3
	r.do(text(conv, ann.Actor(), "x"))
	other := r.open(r.visitor(), true).ID
	for i, c := range []struct{ say, want store.Marks }{
		{store.Marks{}, store.Marks{}},
		{store.Marks{Customer: store.Mark{Delivered: 2}}, store.Marks{Customer: store.Mark{Delivered: 2}}},
		{store.Marks{Customer: store.Mark{Delivered: 1, Read: 1}}, store.Marks{Customer: store.Mark{Delivered: 2, Read: 1}}},
		{store.Marks{Staff: store.Mark{Read: 3}}, store.Marks{Customer: store.Mark{Delivered: 2, Read: 1}, Staff: store.Mark{Delivered: 3, Read: 3}}},
		{store.Marks{Customer: store.Mark{Delivered: 1 << 63, Read: 1<<64 - 1}, Staff: store.Mark{Delivered: 5}},
			store.Marks{Customer: store.Mark{Delivered: 3, Read: 3}, Staff: store.Mark{Delivered: 4, Read: 3}}},
		{store.Marks{}, store.Marks{Customer: store.Mark{Delivered: 3, Read: 3}, Staff: store.Mark{Delivered: 4, Read: 3}}},
		{store.Marks{Staff: store.Mark{Read: 9}}, store.Marks{Customer: store.Mark{Delivered: 3, Read: 3}, Staff: store.Mark{Delivered: 4, Read: 4}}},
	} {
		r.must(r.SaveMarks(t.Context(), []store.ConvMarks{{Conv: "no such", Marks: c.say}, {Conv: conv, Marks: c.say}}))
		if got := r.head(conv).Marks; got != c.want {
			t.Errorf("%d: %+v, want %+v", i, got, c.want)
		}
	}
	if got := r.head(other).Marks; got != (store.Marks{}) {
		t.Errorf("the other conversation has %+v", got)
	}
	r.do(text(conv, lin, "y"))
	if got := r.head(conv).Marks.Staff; got != (store.Mark{Delivered: 4, Read: 4}) {
		t.Errorf("after a message %+v", got)
	}
}

// Places name the notes, and the customer's messages above the mark of staff.
func testPlaces(t *testing.T, r *rig) {
	ann, ben, lin := r.visitor(), r.visitor(), r.lin.Actor()
	conv, plain := r.assigned(ann, r.lin).ID, r.open(ben, true).ID
	r.do(note(conv, lin, "n"))               // 3
	r.do(text(conv, ann.Actor(), "one"))     // 4
	r.do(text(conv, lin, "answer"))          // 5
	r.do(note(conv, r.moe.Actor(), "again")) // 6
	r.do(text(conv, ann.Actor(), "two"))     // 7
	places := func(conv string) store.Places {
		t.Helper()
		all, err := r.Cold().Places(t.Context(), conv)
		r.must(err)
		if len(all) == 0 {
			return store.Places{}
		}
		if len(all) != 1 {
			t.Fatalf("%+v", all)
		}
		return all[0]
	}
	check := func(got store.Places, unread ...uint64) {
		t.Helper()
		if got.Conv != conv || !slices.Equal(got.Hidden, []uint64{3, 6}) || !slices.Equal(got.Unread, unread) {
			t.Errorf("%+v, want unread %v", got, unread)
		}
	}
	check(places(conv), 4, 7)
	check(places(""), 4, 7)
	if p := places(plain); p.Conv != "" {
		t.Errorf("%+v", p)
	}
	r.must(r.SaveMarks(t.Context(), []store.ConvMarks{{Conv: conv, Marks: store.Marks{Staff: store.Mark{Read: 4}}}}))
	check(places(conv), 7)
	r.do(text(plain, ben.Actor(), "here")) // 2
	if all, err := r.Cold().Places(t.Context(), ""); err != nil || len(all) != 2 {
		t.Errorf("%+v %v", all, err)
	}
	r.do(store.Move{Conv: conv, Trigger: store.AgentClose, By: lin})
	check(places(conv), 7)
	if p := places(""); p.Conv != plain || !slices.Equal(p.Unread, []uint64{2}) {
		t.Errorf("of the open ones %+v", p)
	}
}

// scoped is a set of conversations in all relations to agents: lin is in the group, moe is not.
type scoped struct {
	ann                                  store.Contact
	queued, mine, had, theirs, elsewhere string
	group                                store.Group
}

func (r *rig) scoped(say string) scoped {
	r.t.Helper()
	s := scoped{ann: r.visitor(), group: r.group("sales", r.lin)}
	speak := func(c store.Contact, conv string) string {
		r.do(text(conv, c.Actor(), say))
		return conv
	}
	s.had = speak(s.ann, r.assigned(s.ann, r.lin).ID)
	r.do(store.Move{Conv: s.had, Trigger: store.TransferAgent, By: r.lin.Actor(), To: r.moe.ID})
	r.do(store.Move{Conv: s.had, Trigger: store.AgentClose, By: r.moe.Actor()})
	r.shift.Add(int64(48 * time.Hour)) // beyond the reopen window
	s.theirs = speak(s.ann, r.assigned(s.ann, r.moe).ID)
	r.shift.Add(int64(time.Minute))
	ben, cat, dan := r.visitor(), r.visitor(), r.visitor()
	s.queued = speak(ben, r.open(ben, true).ID)
	r.shift.Add(int64(time.Minute))
	s.mine = speak(cat, r.assigned(cat, r.lin).ID)
	r.shift.Add(int64(time.Minute))
	s.elsewhere = r.assigned(dan, r.lin).ID
	r.do(store.Move{Conv: s.elsewhere, Trigger: store.TransferGroup, By: r.lin.Actor(), Group: s.group.ID})
	return s
}

func testAccess(t *testing.T, r *rig) {
	s := r.scoped("hello")
	sue := r.agent("sue", store.MaxCapacity) // has had nothing and is in no group
	const none, own, other = store.NoAccess, store.OwnAccess, store.OtherAccess
	for name, c := range map[string]struct {
		conv          string
		lin, moe, sue store.Access
	}{
		"everybody's queue":  {s.queued, own, own, own},
		"lin's":              {s.mine, own, none, none},
		"lin's before":       {s.had, own, own, none}, // closed, of no group; moe had it, too
		"moe's":              {s.theirs, none, own, none},
		"queue of the group": {s.elsewhere, own, none, none},
	} {
		for agent, want := range map[string]store.Access{r.lin.ID: c.lin, r.moe.ID: c.moe, sue.ID: c.sue} {
			if got, err := r.Cold().Access(t.Context(), store.Scope{Agent: agent}, c.conv); got != want || err != nil {
				t.Errorf("%s: %v %v, want %v", name, got, err, want)
			}
			if want == none {
				want = other
			}
			if got, err := r.Cold().Access(t.Context(), store.Scope{Agent: agent, All: true}, c.conv); got != want || err != nil {
				t.Errorf("%s with all: %v %v, want %v", name, got, err, want)
			}
		}
	}
	if _, err := r.Cold().Access(t.Context(), store.Scope{All: true}, "no such"); err != store.ErrNotFound {
		t.Errorf("unknown: %v", err)
	}
	// An agent may read a contact's closed conversations while it serves the contact, and no longer.
	r.do(store.Move{Conv: s.theirs, Trigger: store.TransferAgent, By: r.moe.Actor(), To: sue.ID})
	serves := func(want store.Access) {
		t.Helper()
		if got, err := r.Cold().Access(t.Context(), store.Scope{Agent: sue.ID}, s.had); got != want || err != nil {
			t.Errorf("another's closed one of a contact: %v %v, want %v", got, err, want)
		}
	}
	serves(own)
	r.do(store.Move{Conv: s.theirs, Trigger: store.TransferAgent, By: sue.Actor(), To: r.moe.ID})
	serves(none)
	// Members of a group read what the group has closed; a closed one of the bot is nobody's.
	closed, alone := r.visitor(), r.visitor()
	ours := r.assigned(closed, r.lin).ID
	r.do(store.Move{Conv: ours, Trigger: store.TransferGroup, By: r.lin.Actor(), Group: s.group.ID})
	r.do(store.Move{Conv: ours, Trigger: store.CustomerClose, By: closed.Actor()})
	bots := r.open(alone, false).ID
	r.do(store.Move{Conv: bots, Trigger: store.CustomerClose, By: alone.Actor()})
	for agent, want := range map[string][2]store.Access{r.lin.ID: {own, none}, sue.ID: {none, none}} {
		for i, conv := range []string{ours, bots} {
			if got, err := r.Cold().Access(t.Context(), store.Scope{Agent: agent}, conv); got != want[i] || err != nil {
				t.Errorf("closed %d: %v %v, want %v", i, got, err, want[i])
			}
		}
	}
	// An agent that had a conversation of a group goes on seeing it, also while another agent has it.
	r.must(r.AddMember(t.Context(), s.group.ID, sue.ID))
	r.do(store.Move{Conv: s.elsewhere, Trigger: store.TakeOver, By: sue.Actor()})
	if got, err := r.Cold().Access(t.Context(), store.Scope{Agent: r.lin.ID}, s.elsewhere); got != own || err != nil {
		t.Errorf("had it: %v %v", got, err)
	}
}

// History is paged, newest first, and scoped before it is paged.
func testHistory(t *testing.T, r *rig) {
	ann := r.visitor()
	var want, moes []string
	for i := range 7 {
		agent := r.lin
		if i%2 == 1 {
			agent = r.moe
		}
		conv := r.assigned(ann, agent).ID
		if i < 6 {
			r.do(store.Move{Conv: conv, Trigger: store.AgentClose, By: agent.Actor(), Reason: fmt.Sprint(i)})
			r.shift.Add(int64(48 * time.Hour))
		}
		want = append(want, conv)
		if agent.ID == r.moe.ID {
			moes = append(moes, conv)
		}
	}
	slices.Reverse(want)
	slices.Reverse(moes)
	read := func(s store.Scope, limit int) (ids []string, others int) {
		t.Helper()
		for cursor, pages := "", 0; ; pages++ {
			page, next, err := r.Cold().History(t.Context(), s, store.Filter{Contact: ann.ID}, cursor, limit)
			r.must(err)
			if len(page) > limit || pages > 10 {
				t.Fatalf("%d conversations on page %d", len(page), pages)
			}
			for _, p := range page {
				ids = append(ids, p.ID)
				if p.Other {
					others++
				}
			}
			if cursor = next; next == "" {
				return ids, others
			}
		}
	}
	for _, limit := range []int{1, 3, 7, 20} {
		if got, others := read(store.Scope{Agent: r.moe.ID, All: true}, limit); !slices.Equal(got, want) || others != 4 {
			t.Errorf("by %d: %v with %d of others, want %v", limit, got, others, want)
		}
		if got, others := read(store.Scope{Agent: r.moe.ID}, limit); !slices.Equal(got, moes) || others != 0 { // what is lin's is lin's
			t.Errorf("scoped by %d: %v with %d of others", limit, got, others)
		}
		if got, others := read(store.Scope{Agent: r.lin.ID}, limit); !slices.Equal(got, want) || others != 0 { // serves her now
			t.Errorf("of who serves her by %d: %v with %d of others", limit, got, others)
		}
	}
	page, _, err := r.Cold().History(t.Context(), store.Scope{All: true}, store.Filter{Contact: ann.ID}, "", 2)
	if err != nil || page[0].Page != "" || page[1].CloseReason != "5" || page[1].ClosedAt == 0 {
		t.Errorf("%+v %v", page, err)
	}
	ben := r.visitor()
	r.do(store.Open{Contact: ben, Page: "https://shop.example/cart"})
	if page, _, err := r.Cold().History(t.Context(), store.Scope{All: true}, store.Filter{Contact: ben.ID}, "", 2); err != nil || len(page) != 1 || page[0].Page != "https://shop.example/cart" {
		t.Errorf("%+v %v", page, err)
	}
	if page, next, err := r.Cold().History(t.Context(), store.Scope{All: true}, store.Filter{Contact: "nobody"}, "", 2); len(page) != 0 || next != "" || err != nil {
		t.Errorf("%+v %q %v", page, next, err)
	}
	for _, cursor := range []string{"x", ".", "!.x", "-"} {
		if _, _, err := r.Cold().History(t.Context(), store.Scope{All: true}, store.Filter{Contact: ann.ID}, cursor, 2); err != store.ErrCursor {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// found returns the texts of what a search finds, page by page.
func (r *rig) found(s store.Scope, query string, limit int) (bodies []string) {
	r.t.Helper()
	for cursor, pages := "", 0; ; pages++ {
		hits, next, err := r.Cold().Search(r.t.Context(), s, query, store.Filter{}, cursor, limit)
		if err != nil {
			r.t.Fatalf("%q: %v", query, err)
		}
		if len(hits) > limit || pages > 50 {
			r.t.Fatalf("%q: %d hits on page %d", query, len(hits), pages)
		}
		for _, h := range hits {
			bodies = append(bodies, h.Event.Body)
		}
		if cursor = next; next == "" {
			return bodies
		}
	}
}

func testSearch(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	all := store.Scope{All: true}
	say := []string{
		"Hello, I want a refund for order 10-2345", "我要退款，订单号 88231", "Mail me: ann.lee@Example.com", "为什么 WiFi 密码是 a4纸？", "it's 100% \"done\" -- OR NOT",
		"REFUND again", "退", "です 환불 Größe",
	}
	for _, body := range say {
		r.shift.Add(int64(time.Millisecond))
		r.do(text(conv.ID, ann.Actor(), body))
	}
	r.shift.Add(int64(time.Millisecond))
	r.do(note(conv.ID, r.lin.Actor(), "note: she wants a refund 退款"))
	say = append(say, "note: she wants a refund 退款")
	for query, want := range map[string][]int{
		"refund": {8, 5, 0}, "Refund ORDER": {0}, "退款": {8, 1}, "退": {8, 6, 1}, "款": {8, 1}, "款退": {}, "订单": {1}, "我要退款，": {1}, "88231": {1}, "8823": {},
		"10-2345": {0}, "2345 10": {0}, "2345-10": {}, "ann.lee@example.com": {2}, "EXAMPLE": {2}, "lee.ann": {}, "wifi 密码": {3}, "A4纸": {3}, "Ａ４": {3}, "纸a4": {},
		"です": {7}, "환불": {7}, "größe": {7}, "GRÖSSE": {}, "nothing": {}, "refund 退款": {8},
		`"done"`: {4}, "OR": {4}, "NOT OR": {4}, "done OR refund": {}, "refund*": {8, 5, 0}, "words:refund": {}, "NEAR(refund order)": {}, "100%": {4}, "a' OR 1=1 --": {}, "');DROP TABLE message;--": {},
	} {
		var texts []string
		for _, i := range want {
			texts = append(texts, say[i])
		}
		for _, limit := range []int{1, 2, 50} {
			if got := r.found(all, query, limit); !slices.Equal(got, texts) {
				t.Errorf("%q by %d: %q, want %q", query, limit, got, texts)
			}
		}
	}
	hide := all
	hide.Seen = func(text string) string {
		return strings.NewReplacer("88231", "•••31", "ann.lee@Example.com", "a•••@•••.com", "wants a refund", "wants a refunded").Replace(text)
	}
	for query, want := range map[string][]string{
		"88231": nil, "订单": {"我要退款，订单号 •••31"}, "订单 88231": nil, "example": nil, "lee": nil, "mail com": {"Mail me: a•••@•••.com"}, "refund": {say[5], say[0]},
	} {
		for _, limit := range []int{1, 50} {
			if got := r.found(hide, query, limit); !slices.Equal(got, want) {
				t.Errorf("%q of what is seen: %q, want %q", query, got, want)
			}
		}
		if hits, next, err := r.Cold().Search(t.Context(), hide, query, store.Filter{}, "", 1); want == nil && (len(hits) > 0 || next != "" || err != nil) {
			t.Errorf("%q of what is not seen: %d hits, more %q, %v", query, len(hits), next, err)
		}
	}
	for _, query := range []string{"", "  ", "!?", `"*"`, strings.Join(slices.Collect(maps.Keys(manyWords(33))), " ")} {
		if _, _, err := r.Cold().Search(t.Context(), all, query, store.Filter{}, "", 20); err != store.ErrQuery {
			t.Errorf("%.20q: %v", query, err)
		}
	}
	for _, cursor := range []string{"!", "-1", "0", "9223372036854775808"} {
		if _, _, err := r.Cold().Search(t.Context(), all, "refund", store.Filter{}, cursor, 20); err != store.ErrCursor {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	hits, _, err := r.Cold().Search(t.Context(), all, "again", store.Filter{}, "", 20)
	r.must(err)
	if h := hits[0]; h.Event.Conv != conv.ID || h.Event.Seq != 8 || h.Event.From != ann.Actor() || h.Event.Kind != store.KindText || h.Event.Time == 0 ||
		h.State != store.Assigned || h.Contact != ann.ID || h.ContactName != ann.Name {
		t.Errorf("%+v", h)
	}
}

func manyWords(n int) map[string]bool {
	all := make(map[string]bool)
	for i := range n {
		all[fmt.Sprint("w", i)] = true
	}
	return all
}

// testSearchScope: a search finds what the scope allows. A page full of messages that it does not allow is not the end.
func testSearchScope(t *testing.T, r *rig) {
	s := r.scoped("needle")
	convs := func(sc store.Scope) (ids []string, others int) {
		hits, _, err := r.Cold().Search(t.Context(), sc, "needle", store.Filter{}, "", 50)
		r.must(err)
		for _, h := range hits {
			ids = append(ids, h.Event.Conv)
			if h.Other {
				others++
			}
		}
		return ids, others
	}
	for name, c := range map[string]struct {
		scope  store.Scope
		want   []string
		others int
	}{
		"lin": {store.Scope{Agent: r.lin.ID}, []string{s.mine, s.queued, s.had}, 0},
		"moe": {store.Scope{Agent: r.moe.ID}, []string{s.queued, s.theirs, s.had}, 0},
		"all": {store.Scope{Agent: r.lin.ID, All: true}, []string{s.mine, s.queued, s.theirs, s.had}, 1},
	} {
		if got, others := convs(c.scope); !slices.Equal(got, c.want) || others != c.others {
			t.Errorf("%s: %v with %d of others, want %v with %d", name, got, others, c.want, c.others)
		}
	}
	eve := r.visitor() // one conversation of moe's with many newer hits
	conv := r.assigned(eve, r.moe).ID
	for range 1100 {
		r.Do(text(conv, eve.Actor(), "needle"), time.Now().Add(time.Minute), func(out store.Outcome) {
			if out.Err != nil {
				t.Error(out.Err)
			}
		})
	}
	r.do(text(conv, eve.Actor(), "needle")) // behind the others
	if got := r.found(store.Scope{Agent: r.lin.ID}, "needle", 20); len(got) != 3 {
		t.Errorf("lin finds %d behind what she may not see, want 3", len(got))
	}
	if got := r.found(store.Scope{All: true}, "needle", 50); len(got) != 4+1101 {
		t.Errorf("%d in all", len(got))
	}
}

func testTag(t *testing.T, r *rig) {
	lin := r.lin.Actor()
	conv := r.assigned(r.visitor(), r.lin)
	for i, c := range []struct {
		add, remove []string
		want        string
		touched     bool
	}{
		{[]string{"vip", "退款"}, nil, "vip,退款", true},
		{[]string{"VIP"}, nil, "vip,退款", false},
		{[]string{"a b"}, []string{"Vip"}, "a b,退款", true},
		{nil, []string{"no such"}, "a b,退款", false},
		{[]string{"x"}, []string{"x"}, "a b,x,退款", true}, // removed first
		{nil, []string{"a b", "x", "退款"}, "", true},
	} {
		out := r.do(store.Tag{Conv: conv.ID, By: lin, Add: c.add, Remove: c.remove})
		if out.Conv.Tags != c.want || out.Touched != c.touched || len(out.Events) != 0 || out.Conv.Rev != conv.Rev || r.head(conv.ID).Tags != c.want {
			t.Errorf("%d: %+v, stored %q, want %q", i, out, r.head(conv.ID).Tags, c.want)
		}
		if got := out.Conv.TagList(); strings.Join(got, ",") != c.want {
			t.Errorf("%d: %q", i, got)
		}
	}
	var most []string
	for i := range store.MaxTags {
		most = append(most, fmt.Sprintf("tag %02d", i))
	}
	r.do(store.Tag{Conv: conv.ID, By: lin, Add: most})
	r.refused(store.Tag{Conv: conv.ID, By: lin, Add: []string{"one more"}}, store.ErrTooMany)
	if got := r.head(conv.ID); len(got.TagList()) != store.MaxTags {
		t.Errorf("tags %q", got.Tags)
	}
	r.refused(store.Tag{Conv: conv.ID, By: store.Actor{Kind: store.Customer, ID: conv.Contact}, Add: []string{"x"}}, store.ErrForbidden)
	r.refused(store.Tag{Conv: "no such", By: lin, Add: []string{"x"}}, store.ErrNotFound)
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: lin})
	r.do(store.Tag{Conv: conv.ID, By: lin, Remove: most[1:]})
	if got := r.head(conv.ID).Tags; got != most[0] {
		t.Errorf("after the close %q", got)
	}
}

func testRate(t *testing.T, r *rig) {
	ann, ben := r.visitor(), r.visitor()
	conv := r.assigned(ann, r.lin).ID
	r.refused(store.Rate{Conv: conv, By: ann.Actor(), Score: 5}, store.ErrConflict)
	r.do(store.Move{Conv: conv, Trigger: store.AgentClose, By: r.lin.Actor()})
	r.refused(store.Rate{Conv: conv, By: ben.Actor(), Score: 1}, store.ErrNotFound)
	r.refused(store.Rate{Conv: conv, By: r.lin.Actor(), Score: 5}, store.ErrNotFound)
	r.refused(store.Rate{Conv: "no such", By: ann.Actor(), Score: 5}, store.ErrNotFound)
	for _, c := range []store.Rate{{Score: 2, Comment: "慢"}, {Score: 5}} { // the last one counts
		c.Conv, c.By = conv, ann.Actor()
		if out := r.do(c); out.Conv.Score != c.Score || !out.Touched || len(out.Events) != 0 {
			t.Errorf("%+v", out)
		}
		if got := r.head(conv); got.Score != c.Score || got.Comment != c.Comment {
			t.Errorf("stored %d %q", got.Score, got.Comment)
		}
	}
	r.do(text(conv, ann.Actor(), "one more thing")) // reopens
	r.refused(store.Rate{Conv: conv, By: ann.Actor(), Score: 1}, store.ErrConflict)
	if got := r.head(conv).Score; got != 5 {
		t.Errorf("after reopening %d", got)
	}
}

// testBlock: a blocked contact can neither open, write, reopen nor rate. Its earlier messages stay, and it can be let in
// again.
func testBlock(t *testing.T, r *rig) {
	ann, ben := r.visitor(), r.visitor()
	conv := r.assigned(ann, r.lin).ID
	first := text(conv, ann.Actor(), "before")
	r.do(first)
	c, err := r.BlockContact(t.Context(), ann.ID, true)
	if err != nil || !c.Blocked || c.ID != ann.ID {
		t.Fatalf("%+v %v", c, err)
	}
	if c, err := r.Cold().Contact(t.Context(), ann.ID); err != nil || !c.Blocked {
		t.Errorf("%+v %v", c, err)
	}
	r.refused(text(conv, ann.Actor(), "x"), store.ErrBlocked)
	if out := r.do(first); !out.Dup { // what was stored is acknowledged
		t.Errorf("%+v", out)
	}
	if out := r.try(store.Open{Contact: ann}); out.Err != store.ErrBlocked {
		t.Errorf("opens although it has one: %+v", out)
	}
	r.do(text(conv, r.lin.Actor(), "agents may"))
	out := r.do(store.Move{Conv: conv, Trigger: store.Block, By: r.lin.Actor(), Note: "spam"})
	if out.Conv.State != store.Closed || len(out.Events) != 2 || out.Events[1].PSeq != 0 || !out.Conv.Blocked {
		t.Errorf("%+v", out)
	}
	r.refused(text(conv, ann.Actor(), "reopens"), store.ErrBlocked)
	r.refused(store.Rate{Conv: conv, By: ann.Actor(), Score: 1}, store.ErrBlocked)
	r.refused(store.Open{Contact: ann, Human: true}, store.ErrBlocked)
	r.open(ben, true)
	if _, err := r.BlockContact(t.Context(), "nobody", true); err != store.ErrNotFound {
		t.Errorf("unknown: %v", err)
	}
	if c, err := r.BlockContact(t.Context(), ann.ID, false); err != nil || c.Blocked {
		t.Errorf("%+v %v", c, err)
	}
	if out := r.do(text(conv, ann.Actor(), "again")); out.Conv.State != store.Queued {
		t.Errorf("%+v", out)
	}
}

func testPatchContact(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.open(ann, true).ID
	patch := func(name string, attributes map[string]string) store.Contact {
		t.Helper()
		c, err := r.PatchContact(t.Context(), store.ContactPatch{Contact: ann.ID, Name: name, Attributes: attributes})
		r.must(err)
		stored, err := r.Cold().Contact(t.Context(), ann.ID)
		r.must(err)
		if stored.Name != c.Name || !maps.Equal(stored.Attributes, c.Attributes) {
			t.Errorf("%+v, stored %+v", c, stored)
		}
		return c
	}
	if c := patch("", map[string]string{"email": "a@b.c", "x": "1"}); c.Name != ann.Name || len(c.Attributes) != 2 {
		t.Errorf("%+v", c)
	}
	if c := patch("安", map[string]string{"x": "", "y": "2"}); c.Name != "安" || !maps.Equal(c.Attributes, map[string]string{"email": "a@b.c", "y": "2"}) {
		t.Errorf("%+v", c)
	}
	if got := r.head(conv).ContactName; got != "安" {
		t.Errorf("the conversation says %q", got)
	}
	many := make(map[string]string)
	for k := range manyWords(store.MaxAttributes) {
		many[k] = "v"
	}
	if _, err := r.PatchContact(t.Context(), store.ContactPatch{Contact: ann.ID, Attributes: many}); err != store.ErrTooMany {
		t.Errorf("too many: %v", err)
	}
	if c := patch("", nil); len(c.Attributes) != 2 {
		t.Errorf("after the refusal %+v", c)
	}
	if _, err := r.PatchContact(t.Context(), store.ContactPatch{Contact: "nobody", Name: "x"}); err != store.ErrNotFound {
		t.Errorf("unknown: %v", err)
	}
}

func testCannedFor(t *testing.T, r *rig) {
	sales := r.group("sales", r.lin)
	for _, c := range []store.Canned{
		{Short: "hi", Locale: "en", Title: "Greeting", Body: "Hello!"}, {Short: "hi", Locale: "zh-CN", Title: "问候", Body: "您好！"},
		{Short: "hey", Locale: "zh-CN", Title: "问候", Body: "你好"}, {Short: "bye", Title: "Farewell", Body: "100% good_bye, say hi"},
		{Short: "high", Locale: "en", Title: "Sales only", Body: "x", Group: sales.ID},
	} {
		_, err := r.CreateCanned(t.Context(), c)
		r.must(err)
	}
	for _, c := range []struct {
		agent, q, locale string
		limit            int
		want             string
	}{
		{r.lin.ID, "hi", "en", 9, "hi/en high/en bye/"}, // names first
		{r.moe.ID, "hi", "en", 9, "hi/en bye/"},
		{r.lin.ID, "HI", "zh-CN", 9, "hi/zh-CN bye/"},
		{r.lin.ID, "", "zh-TW", 9, "hey/zh-CN hi/zh-CN bye/"},
		{r.lin.ID, "", "en-GB", 9, "hi/en high/en bye/"},
		{r.moe.ID, "", "", 9, "bye/ hey/zh-CN hi/en hi/zh-CN"},
		{r.moe.ID, "", "fr", 9, "bye/"},
		{r.lin.ID, "hi", "en", 1, "hi/en"},
		{r.lin.ID, "问", "zh-CN", 9, "hey/zh-CN hi/zh-CN"},
		{r.lin.ID, "%", "en", 9, "bye/"}, {r.lin.ID, "d_b", "en", 9, "bye/"}, {r.lin.ID, "o_d", "en", 9, ""}, {r.lin.ID, `\`, "en", 9, ""},
	} {
		all, err := r.Cold().Canned(t.Context(), c.agent, c.q, c.locale, c.limit)
		r.must(err)
		var got []string
		for _, k := range all {
			got = append(got, k.Short+"/"+k.Locale)
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%q for %q: %q, want %q", c.q, c.locale, got, c.want)
		}
	}
}
