package perm_test

import (
	"slices"
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
)

// Every role against every permission: a change of the table has to be made here, too.
func TestTable(t *testing.T) {
	may := map[perm.Role]map[perm.Permission]bool{
		perm.Agent:   {perm.Serve: true, perm.Private: true},
		perm.Auditor: {perm.ReadOthers: true, perm.ViewWall: true, perm.ViewAudit: true},
		perm.Supervisor: {perm.Serve: true, perm.ReadOthers: true, perm.Override: true, perm.Whisper: true, perm.Block: true, perm.ViewWall: true,
			perm.ForceState: true, perm.Personal: true, perm.Private: true},
		perm.Admin: {perm.Serve: true, perm.ReadOthers: true, perm.Override: true, perm.Whisper: true, perm.Block: true, perm.ViewWall: true,
			perm.ForceState: true, perm.ViewAudit: true, perm.Manage: true, perm.Personal: true, perm.Private: true},
		"":     {},
		"root": {},
	}
	all := []perm.Permission{perm.Serve, perm.ReadOthers, perm.Override, perm.Whisper, perm.Block, perm.ViewWall, perm.ForceState, perm.ViewAudit, perm.Manage,
		perm.Personal, perm.Private, "", "everything"}
	for role, want := range may {
		for _, p := range all {
			if got := role.Can(p); got != want[p] {
				t.Errorf("%q may %q: %v", role, p, got)
			}
		}
	}
	for role, below := range map[perm.Role][]perm.Role{
		perm.Agent: {perm.Agent}, perm.Auditor: {perm.Auditor}, perm.Supervisor: {perm.Agent, perm.Supervisor}, perm.Admin: perm.Roles(), "root": {"root"},
	} {
		for other := range may {
			if lacks := role.Lacks(other); (lacks == "") != (slices.Contains(below, other) || len(may[other]) == 0) || lacks != "" && (may[role][lacks] || !may[other][lacks]) {
				t.Errorf("%q lacks of %q %q", role, other, lacks)
			}
		}
	}
	chats := map[perm.Role]bool{perm.Agent: true, perm.Supervisor: true}
	for _, r := range perm.Roles() {
		if r.TakesChats() != chats[r] {
			t.Errorf("%q takes chats: %v", r, r.TakesChats())
		}
		if !r.Valid() {
			t.Errorf("%q is not valid", r)
		}
	}
	if perm.Role("root").Valid() || perm.Role("").Valid() {
		t.Error("a role that does not exist is valid")
	}
}
