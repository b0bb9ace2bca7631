package desk

import (
	"errors"
	"fmt"

	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/desk/sso"
)

// CheckSSO reports settings of single sign-on that cannot work, or let in people whom nobody has meant. s may be nil.
func CheckSSO(s *SSO, publicURL string, passwords front.PasswordPolicy) error {
	if s == nil {
		if passwords != front.PasswordAll {
			return fmt.Errorf("desk: passwords are for %q without single sign-on: nobody else could log in", passwords)
		}
		return nil
	}
	provider := s.provider(publicURL)
	if err := provider.Check(); err != nil {
		return fmt.Errorf("desk: single sign-on: %w", err)
	}
	switch {
	case s.Rules.Create != "" && !s.Rules.Create.Valid():
		return fmt.Errorf("desk: single sign-on makes accounts of the role %q, which does not exist", s.Rules.Create)
	case s.Rules.Create != "" && len(s.Rules.Domains) == 0 && len(s.Rules.Roles) == 0:
		return errors.New("desk: single sign-on makes an account for everybody whom the provider knows: name the domains or the roles of those who are meant")
	case len(s.Rules.Roles) > 0 && s.Provider.Claim == "":
		return errors.New("desk: single sign-on has roles and no claim that names them")
	}
	for name, role := range s.Rules.Roles {
		if !role.Valid() {
			return fmt.Errorf("desk: single sign-on gives %q the role %q, which does not exist", name, role)
		}
	}
	return nil
}

// provider returns the options of the provider with the page that it sends browsers back to.
func (s *SSO) provider(publicURL string) sso.Options {
	o := s.Provider
	if publicURL != "" {
		o.Redirect = publicURL + "/console"
	}
	if o.Scopes == nil {
		o.Scopes = []string{"profile", "email"}
	}
	return o
}

// openSSO begins to look for the provider. The Desk serves meanwhile, and without it.
func (d *Desk) openSSO() (err error) {
	if d.o.SSO == nil {
		return nil
	}
	o := d.o.SSO.provider(d.o.PublicURL)
	o.Logger, o.Now = d.o.Logger, d.o.Now
	o.Timeout = max(o.Timeout, d.o.patience)
	d.sso, err = sso.Open(o)
	return err
}
