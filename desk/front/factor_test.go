package front

import (
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// TestFactorPolicy: an account without a second factor is kept out where the policy asks for one.
func TestFactorPolicy(t *testing.T) {
	for _, c := range []struct {
		policy FactorPolicy
		role   perm.Role
		factor bool
		want   bool
	}{
		{FactorOptional, perm.Admin, false, false}, {FactorAdmins, perm.Admin, false, true}, {FactorAdmins, perm.Admin, true, false},
		{FactorAdmins, perm.Supervisor, false, false}, {FactorAll, perm.Auditor, false, true}, {FactorAll, perm.Agent, true, false},
	} {
		if got := c.policy.Bars(store.AgentAccount{Role: c.role, Factor: c.factor}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
