package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// testKeys: a key is found by the hash of its secret until it is revoked. Lists are bounded, and say so.
func testKeys(t *testing.T, r *rig) {
	ctx := t.Context()
	secret := newToken()
	made := store.APIKey{Name: "Shop", Prefix: "desk_abc", Scopes: []perm.KeyScope{perm.KeyRead, perm.KeyTags}, By: r.lin.Actor()}
	k, err := r.CreateAPIKey(ctx, made, secret)
	r.must(err)
	made.ID, made.Created = k.ID, k.Created
	got, err := r.Cold().APIKey(ctx, secret)
	if err != nil || !reflect.DeepEqual(got, made) || k.ID == "" || k.Created == 0 {
		t.Errorf("%+v %v, want %+v", got, err, made)
	}
	if got.Can(perm.KeySend) || !got.Can(perm.KeyTags) || got.Can("") {
		t.Errorf("scopes %q", got.Scopes)
	}
	if _, err := r.CreateAPIKey(ctx, made, secret); !errors.Is(err, store.ErrExists) {
		t.Errorf("the same secret: %v", err)
	}
	r.shift.Add(int64(time.Hour))
	r.must(r.TouchAPIKey(ctx, k.ID))
	if got, err := r.Cold().APIKey(ctx, secret); err != nil || got.Used < k.Created+time.Hour.Milliseconds() {
		t.Errorf("used %+v %v", got, err)
	}
	r.must(r.RevokeAPIKey(ctx, k.ID))
	for what, err := range map[string]error{"again": r.RevokeAPIKey(ctx, k.ID), "none": r.RevokeAPIKey(ctx, "x"), "touched": r.TouchAPIKey(ctx, "x")} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, token := range map[string]store.Token{"revoked": secret, "unknown": newToken(), "none": {}} {
		if _, err := r.Cold().APIKey(ctx, token); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for field, bad := range map[string]store.APIKey{
		"name required":   {Scopes: made.Scopes},
		"scopes required": {Name: "x"},
		"scopes unknown":  {Name: "x", Scopes: []perm.KeyScope{"all"}},
		"scopes twice":    {Name: "x", Scopes: []perm.KeyScope{perm.KeyRead, perm.KeyRead}},
		"name format":     {Name: "a\nb", Scopes: made.Scopes},
	} {
		_, err := r.CreateAPIKey(ctx, bad, newToken())
		wrong(t, field, err, field)
	}
	for i := range store.MaxAPIKeys {
		_, err := r.CreateAPIKey(ctx, store.APIKey{Name: fmt.Sprint(i), Scopes: made.Scopes}, newToken())
		r.must(err)
	}
	_, err = r.CreateAPIKey(ctx, made, newToken())
	wrong(t, "one too many", err, "keys many")
	all, err := r.Cold().APIKeys(ctx)
	if err != nil || len(all) != store.MaxAPIKeys+1 || all[store.MaxAPIKeys].ID != k.ID || all[store.MaxAPIKeys].Revoked == 0 || all[0].Name != fmt.Sprint(store.MaxAPIKeys-1) {
		t.Errorf("%d keys, %v", len(all), err)
	}
}

// testConversations: pages of all conversations have each once, also while others begin, and with the same time.
func testConversations(t *testing.T, r *rig) {
	var ids []string
	begin := func(closed bool) {
		c := r.open(r.visitor(), true)
		if closed {
			r.do(store.Move{Conv: c.ID, Trigger: store.CustomerClose, By: store.Actor{Kind: store.Customer, ID: c.Contact}})
		}
		ids = append(ids, c.ID)
	}
	for i := range 25 {
		if i == 12 {
			r.shift.Add(int64(time.Hour))
		}
		begin(i%2 == 0)
	}
	middle := r.head(ids[12]).OpenedAt
	read := func(q store.ConvQuery, between func()) (got []string) {
		t.Helper()
		for pages := 0; ; pages++ {
			page, next, err := r.Cold().Conversations(t.Context(), q)
			r.must(err)
			if len(page) > q.Limit || pages > 40 {
				t.Fatalf("%d conversations on page %d", len(page), pages)
			}
			for _, c := range page {
				got = append(got, c.ID)
			}
			if next == "" {
				return got
			}
			q.Cursor = next
			between()
		}
	}
	for name, c := range map[string]struct {
		q    store.ConvQuery
		want func(i int) bool
	}{
		"all":        {store.ConvQuery{}, func(int) bool { return true }},
		"closed":     {store.ConvQuery{State: store.Closed}, func(i int) bool { return i%2 == 0 }},
		"queued":     {store.ConvQuery{State: store.Queued}, func(i int) bool { return i%2 == 1 }},
		"with a bot": {store.ConvQuery{State: store.InBot}, func(int) bool { return false }},
		"later":      {store.ConvQuery{From: middle}, func(i int) bool { return i >= 12 }},
		"earlier":    {store.ConvQuery{To: middle}, func(i int) bool { return i < 12 }},
		"both":       {store.ConvQuery{State: store.Closed, From: 1, To: middle}, func(i int) bool { return i%2 == 0 && i < 12 }},
		"none":       {store.ConvQuery{From: middle, To: middle}, func(int) bool { return false }},
	} {
		var want []string
		for i, id := range ids[:25] {
			if c.want(i) {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		for _, limit := range []int{1, 3, 100} {
			c.q.Limit = limit
			got := read(c.q, func() {})
			if len(ids) == 25 && limit == 3 && name == "all" {
				got = read(c.q, func() { begin(false) }) // newer than every page
			}
			opened := int64(1<<63 - 1)
			for _, id := range got {
				at := r.head(id).OpenedAt
				if at > opened {
					t.Errorf("%s by %d: not the newest first", name, limit)
				}
				opened = at
			}
			got = slices.DeleteFunc(got, func(id string) bool { return slices.Index(ids, id) >= 25 })
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s by %d: %d conversations, want %d", name, limit, len(got), len(want))
			}
		}
	}
	for _, cursor := range []string{"x", ".", "!.x", "9999999999999999999999.x"} {
		if _, _, err := r.Cold().Conversations(t.Context(), store.ConvQuery{Cursor: cursor}); !errors.Is(err, store.ErrCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// testNotices: a text of the server, which may speak for a program, takes the conversation from nobody, answers for
// nobody, and is there once for each program.
func testNotices(t *testing.T, r *rig) {
	shop, bank := store.Actor{Kind: store.System, ID: "shop", Name: "Shop"}, store.Actor{Kind: store.System, ID: "bank", Name: "Bank"}
	say := func(conv string, from store.Actor, id string) store.Append {
		return store.Append{Conv: conv, From: from, ClientID: id, Body: "Your parcel has left."}
	}
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	for _, c := range []store.Conversation{r.open(r.visitor(), false), r.open(r.visitor(), true), conv} {
		c = r.do(text(c.ID, store.Actor{Kind: store.Customer, ID: c.Contact}, "hello")).Conv
		out := r.do(say(c.ID, shop, "1"))
		e := out.Events[0]
		if len(out.Events) != 1 || e.Kind != store.KindNotice || e.From != shop || e.PSeq == 0 || e.Seq != c.LastSeq+1 {
			t.Errorf("%s: %+v", c.State, out.Events)
		}
		after := out.Conv
		if after.State != c.State || !after.Owner.Is(c.Owner) || after.Rev != c.Rev || after.Epoch != c.Epoch || after.WaitingSince != c.WaitingSince ||
			after.WaitingSince == 0 || after.RepliedAt != c.RepliedAt || after.Preview != "hello" || after.At != c.At { // which would keep a silent chat open
			t.Errorf("%s: %+v became %+v", c.State, c, after)
		}
		if again := r.do(say(c.ID, shop, "1")); !again.Dup || again.Events[0].ID != e.ID {
			t.Errorf("again: %+v", again)
		}
		if other := r.do(say(c.ID, bank, "1")); other.Dup {
			t.Errorf("another program's message: %+v", other)
		}
	}
	warned := r.do(store.Warn{Conv: conv.ID, Seq: r.head(conv.ID).LastSeq, Body: "soon"}).Conv
	if c := r.do(say(conv.ID, shop, "warned")).Conv; c.WarnedAt != warned.WarnedAt || c.WarnedAt == 0 {
		t.Errorf("a program's text ends the warning: %+v", c)
	}
	if out := r.do(store.Tag{Conv: conv.ID, By: shop, Add: []string{"parcel"}}); out.Conv.Tags != "parcel" {
		t.Errorf("tags %q", out.Conv.Tags)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	r.refused(say(conv.ID, shop, "2"), store.ErrClosed)
	if again := r.try(say(conv.ID, shop, "1")); again.Err != nil || !again.Dup {
		t.Errorf("again after the close: %+v", again)
	}
	r.refused(say("none", shop, "2"), store.ErrNotFound)
	note := say(conv.ID, shop, "3")
	note.Note = true
	r.refused(note, store.ErrForbidden)
}
