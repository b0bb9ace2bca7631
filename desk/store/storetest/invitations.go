package storetest

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// testInvitations: an invitation makes one account, with its role and groups, while it has not expired, is not revoked,
// and whoever made it may manage.
func testInvitations(t *testing.T, r *rig) {
	ctx := t.Context()
	now := func() time.Time { return time.Now().Add(time.Duration(r.shift.Load())) }
	boss, err := r.CreateAgent(ctx, store.AgentAccount{Login: "boss", Name: "Boss", Password: "x", Role: perm.Admin})
	r.must(err)
	second, err := r.CreateAgent(ctx, store.AgentAccount{Login: "second", Name: "Second", Password: "x", Role: perm.Admin})
	r.must(err)
	near, gone := r.group("near"), r.group("gone")
	invite := func(by store.AgentAccount, life time.Duration) (store.Invitation, store.Token) {
		t.Helper()
		token := newToken()
		v, err := r.CreateInvitation(ctx, store.Invitation{Name: "Zoe", Role: perm.Supervisor, Groups: []string{near.ID, gone.ID}, By: by.Actor(), Expires: now().Add(life).UnixMilli()}, token)
		r.must(err)
		return v, token
	}
	expect := func(what string, token store.Token, want error) {
		t.Helper()
		if _, err := r.Cold().Invitation(ctx, token, now()); !errors.Is(err, want) {
			t.Errorf("%s: reading: %v, want %v", what, err, want)
		}
		if want == nil {
			return
		}
		if _, err := r.AcceptInvitation(ctx, token, store.AgentAccount{Login: "late", Name: "Late"}, store.Identity{}); !errors.Is(err, want) {
			t.Errorf("%s: accepting: %v, want %v", what, err, want)
		}
	}
	v, token := invite(boss, time.Hour)
	got, err := r.Cold().Invitation(ctx, token, now())
	if err != nil || !reflect.DeepEqual(got, v) || v.ID == "" || v.Created == 0 || v.Ended != 0 {
		t.Errorf("%+v %v, want %+v", got, err, v)
	}
	if _, err := r.AcceptInvitation(ctx, token, store.AgentAccount{Login: "LIN", Name: "Zoe"}, store.Identity{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a login that is taken: %v", err)
	}
	_, err = r.AcceptInvitation(ctx, token, store.AgentAccount{Login: "a b", Name: ""}, store.Identity{})
	wrong(t, "a bad login", err, "login format", "name required")
	expect("after refusals", token, nil)
	r.must(r.DeleteGroup(ctx, gone.ID))
	var made [4]store.AgentAccount
	var errs [4]error
	var at sync.WaitGroup
	for i := range made {
		at.Go(func() {
			made[i], errs[i] = r.AcceptInvitation(ctx, token, store.AgentAccount{Login: string(rune('w' + i)), Name: "Zoe", Password: "y", Role: perm.Admin, Capacity: 4}, store.Identity{})
		})
	}
	at.Wait()
	zoe, refused := store.AgentAccount{}, 0
	for i, err := range errs {
		if err == nil {
			zoe = made[i]
		} else if errors.Is(err, store.ErrNotFound) {
			refused++
		}
	}
	stored, err := r.Cold().AgentByID(ctx, zoe.ID)
	if refused != 3 || err != nil || !reflect.DeepEqual(stored, zoe) || zoe.Role != perm.Supervisor || zoe.NoChats || zoe.Capacity != 4 || zoe.Password != "y" {
		t.Errorf("%d refused, %+v, stored %+v %v", refused, zoe, stored, err)
	}
	members, err := r.Cold().Members(ctx)
	if r.must(err); !slices.Equal(members[near.ID], []string{zoe.ID}) {
		t.Errorf("%v", members)
	}
	expect("used", token, store.ErrNotFound)
	revoked, token := invite(boss, time.Hour)
	r.must(r.RevokeInvitation(ctx, revoked.ID))
	expect("revoked", token, store.ErrNotFound)
	for what, id := range map[string]string{"revoked": revoked.ID, "used": v.ID, "none": "x"} {
		if err := r.RevokeInvitation(ctx, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("revoking what is %s: %v", what, err)
		}
	}
	_, token = invite(boss, time.Hour)
	change := func(f func(*store.AgentAccount)) {
		a := boss
		f(&a)
		r.must(r.UpdateAgent(ctx, a))
	}
	change(func(a *store.AgentAccount) { a.Role = perm.Supervisor })
	expect("its maker is no administrator", token, store.ErrNotFound)
	change(func(a *store.AgentAccount) { a.Disabled = true })
	expect("its maker is disabled", token, store.ErrNotFound)
	change(func(*store.AgentAccount) {})
	expect("its maker is back", token, nil)
	r.shift.Add(int64(2 * time.Hour))
	expect("expired", token, store.ErrExpired)
	expect("unknown", newToken(), store.ErrNotFound)
	_, token = invite(second, time.Hour)
	who := store.Identity{Issuer: "https://login.example", Subject: "1"}
	a, err := r.AcceptInvitation(ctx, token, store.AgentAccount{Login: "yan", Name: "Yan"}, who)
	if byID, byErr := r.Cold().AgentByIdentity(ctx, who); err != nil || byErr != nil || !reflect.DeepEqual(byID, a) || !a.Linked {
		t.Errorf("%+v %v, by its identity %+v %v", a, err, byID, byErr)
	}
	_, token = invite(second, time.Hour)
	if _, err := r.AcceptInvitation(ctx, token, store.AgentAccount{Login: "yan2", Name: "Yan"}, who); !errors.Is(err, store.ErrExists) {
		t.Errorf("an identity that is taken: %v", err)
	}
	invitationLimits(t, r, second, now)
}

// invitationLimits: wrong fields are named, and so is a list that is full; what expired long ago makes room.
func invitationLimits(t *testing.T, r *rig, by store.AgentAccount, now func() time.Time) {
	ctx := t.Context()
	good := func() store.Invitation {
		return store.Invitation{Role: perm.Agent, By: by.Actor(), Expires: now().Add(store.MaxInvitationLife - time.Minute).UnixMilli()}
	}
	for field, change := range map[string]func(*store.Invitation){
		"role unknown":  func(v *store.Invitation) { v.Role = "king" },
		"name format":   func(v *store.Invitation) { v.Name = "a\nb" },
		"expires range": func(v *store.Invitation) { v.Expires += 2 * time.Minute.Milliseconds() },
	} {
		v := good()
		change(&v)
		_, err := r.CreateInvitation(ctx, v, newToken())
		wrong(t, field, err, field)
	}
	v := good()
	v.Expires = now().UnixMilli()
	_, err := r.CreateInvitation(ctx, v, newToken())
	wrong(t, "expired at once", err, "expires range")
	full := func() (n int) {
		for ; ; n++ {
			_, err := r.CreateInvitation(ctx, good(), newToken())
			if err != nil {
				wrong(t, "one too many", err, "invitations many")
				return n
			}
			if n > store.MaxInvitations {
				t.Fatal("there is no bound")
			}
		}
	}
	if n := full(); n != store.MaxInvitations-2 { // two of before are open, or have expired and are still listed
		t.Errorf("%d could be added", n)
	}
	all, err := r.Cold().Invitations(ctx)
	if r.must(err); len(all) != store.MaxInvitations+3 || all[0].Ended != 0 || all[len(all)-1].Ended == 0 || all[len(all)-1].Agent == "" {
		t.Errorf("%d invitations, %+v", len(all), all[len(all)-1])
	}
	r.shift.Add(int64(2*store.MaxInvitationLife + time.Hour))
	if n := full(); n != store.MaxInvitations {
		t.Errorf("weeks later %d could be added", n)
	}
}
