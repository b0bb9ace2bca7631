package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

func (r *rig) bot(name, kind string) store.BotAccount {
	r.t.Helper()
	b, err := r.CreateBot(r.t.Context(), store.BotAccount{Name: name, Kind: kind, Config: "{}"})
	r.must(err)
	return b
}

func testBots(t *testing.T, r *rig) {
	ctx := t.Context()
	rules, hook := r.bot("Rita", store.BotRules), r.bot("Hal", store.BotWebhook)
	all, err := r.Cold().Bots(ctx)
	if err != nil || !slices.Equal(all, []store.BotAccount{hook, rules}) || hook.ID == "" || hook.Created == 0 {
		t.Fatalf("%+v %v", all, err)
	}
	if _, err := r.CreateBot(ctx, store.BotAccount{Name: "Hal", Kind: store.BotRules, Config: "{}"}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second Hal: %v", err)
	}
	if _, err := r.CreateBot(ctx, store.BotAccount{Name: "Odd", Kind: "odd", Config: "{}"}); err == nil {
		t.Error("a bot of an unknown kind")
	}
	renamed := rules
	renamed.Name = "Hal"
	if err := r.UpdateBot(ctx, renamed); !errors.Is(err, store.ErrExists) {
		t.Errorf("renamed to one that is there: %v", err)
	}
	rules.Name, rules.Config = "Rosa", `{"a":1}`
	r.must(r.UpdateBot(ctx, rules))
	if b, err := r.Hot().Bot(ctx, rules.ID); err != nil || b != rules {
		t.Errorf("%+v %v", b, err)
	}
	if err := r.UpdateBot(ctx, store.BotAccount{ID: "nobody", Name: "X", Kind: store.BotRules}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("update of nobody: %v", err)
	}
	if _, err := r.CreateSite(ctx, store.Site{Key: "ghost", Name: "x", Bot: "nobody"}); err == nil {
		t.Error("a site with an unknown bot")
	}

	for name, c := range map[string]struct {
		site store.Site
		want store.Actor
	}{
		"chosen, its own name":       {store.Site{Key: "a", Bot: hook.ID}, store.Actor{Kind: store.Bot, ID: hook.ID, Name: "Hal"}},
		"chosen, the site's name":    {store.Site{Key: "b", Bot: rules.ID, BotName: "Eddy"}, store.Actor{Kind: store.Bot, ID: rules.ID, Name: "Eddy"}},
		"none chosen but named":      {store.Site{Key: "c", BotName: "Eddy"}, store.Actor{Kind: store.Bot, ID: store.BuiltInBot, Name: "Eddy"}},
		"neither chosen nor a name:": {store.Site{Key: "d"}, store.Actor{}},
	} {
		c.site.Name = name
		r.site = r.newSite(c.site)
		if conv := r.open(r.visitor(), false); conv.Owner != c.want {
			t.Errorf("%s: owner %+v, want %+v", name, conv.Owner, c.want)
		}
	}
	if err := r.DeleteBot(ctx, hook.ID); !errors.Is(err, store.ErrInUse) {
		t.Errorf("a bot that a site has: %v", err)
	}
	unused := r.bot("Unused", store.BotRules)
	r.must(r.DeleteBot(ctx, unused.ID))
	for _, err := range []error{r.DeleteBot(ctx, unused.ID), second(r.Cold().Bot(ctx, unused.ID))} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after the end: %v", err)
		}
	}
}

func second(_ store.BotAccount, err error) error { return err }
