package desk

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/sso"
)

// loginFlags say how staff log in besides the password, or in its place.
type loginFlags struct {
	factor, passwords                  string
	issuer, client, secret, secretFile string
	text, claim, create                string
	domains, roles                     []string
	link                               bool
	cost                               passwordCost
}

const maxSecretFile = 4 << 10

func (f *loginFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.factor, "second-factor", "optional", "whose login needs a code besides the password: optional (who wants it), admins or all")
	flags.StringVar(&f.passwords, "passwords", "all", "with --oidc-issuer, whose passwords log in: all, admins (the way back when the provider is dead) or none")
	f.cost.register(cmd)
	flags.StringVar(&f.issuer, "oidc-issuer", "", "address of an OpenID Connect provider for single sign-on, such as https://login.example/realms/staff; needs --public-url")
	flags.StringVar(&f.client, "oidc-client", "", "client id of Desk at the provider")
	flags.StringVar(&f.secret, "oidc-secret", "", "secret of that client; other users of the machine see a command line, so use EDDY_DESK_OIDC_SECRET, or")
	flags.StringVar(&f.secretFile, "oidc-secret-file", "", "file whose first line is the secret")
	flags.StringVar(&f.text, "oidc-text", "", "text of the button; empty = \"Single sign-on\" in the language of the page")
	flags.StringSliceVar(&f.domains, "oidc-domains", nil, "domains of verified e-mail addresses that get in, separated by commas; empty = everybody who has an account")
	flags.StringVar(&f.claim, "oidc-claim", "", "claim of the id token that names roles or groups, such as groups or realm_access.roles")
	flags.StringSliceVar(&f.roles, "oidc-roles", nil, "roles by names in that claim, such as support=agent,it=admin; whoever has none of them is refused")
	flags.StringVar(&f.create, "oidc-create", "", "role of the account that is made for somebody without one; empty = an invitation is needed")
	flags.BoolVar(&f.link, "oidc-link-email", false, "a verified e-mail address that is the login of an account, without a second factor, belongs to that account")
}

// factorPolicies are the values of --second-factor.
func factorPolicies() map[string]front.FactorPolicy {
	return map[string]front.FactorPolicy{"optional": front.FactorOptional, "admins": front.FactorAdmins, "all": front.FactorAll}
}

// passwordPolicies are the values of --passwords.
func passwordPolicies() map[string]front.PasswordPolicy {
	return map[string]front.PasswordPolicy{"all": front.PasswordAll, "admins": front.PasswordAdmins, "none": front.PasswordNone}
}

func (f *loginFlags) check(publicURL string) error {
	if _, ok := factorPolicies()[f.factor]; !ok {
		return fmt.Errorf("--second-factor is %q: give optional, admins or all", f.factor)
	}
	if err := f.cost.check(); err != nil {
		return err
	}
	if _, ok := passwordPolicies()[f.passwords]; !ok {
		return fmt.Errorf("--passwords is %q: give all, admins or none", f.passwords)
	}
	if f.issuer == "" {
		for name, set := range map[string]bool{"oidc-client": f.client != "", "oidc-secret": f.secret != "", "oidc-secret-file": f.secretFile != "", "oidc-domains": len(f.domains) > 0,
			"oidc-claim": f.claim != "", "oidc-roles": len(f.roles) > 0, "oidc-create": f.create != "", "oidc-link-email": f.link} {
			if set {
				return fmt.Errorf("--%s is of no use without --oidc-issuer: give the address of the provider", name)
			}
		}
	}
	if f.secret != "" && f.secretFile != "" {
		return errors.New("--oidc-secret and --oidc-secret-file are both given: use one")
	}
	s, err := f.sso()
	if err != nil {
		return err
	}
	if err := desk.CheckSSO(s, publicURL, passwordPolicies()[f.passwords]); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "desk: "))
	}
	return nil
}

// sso returns the single sign-on of the flags, nil if there is none.
func (f *loginFlags) sso() (*desk.SSO, error) {
	if f.issuer == "" {
		return nil, nil
	}
	s := &desk.SSO{
		Provider: sso.Options{Issuer: f.issuer, ClientID: f.client, Secret: f.secret, Claim: f.claim},
		Rules:    front.SSORules{Text: f.text, Domains: f.domains, Create: perm.Role(f.create), LinkEmail: f.link},
	}
	for _, pair := range f.roles {
		name, role, ok := strings.Cut(pair, "=")
		if !ok || name == "" || role == "" {
			return nil, fmt.Errorf("--oidc-roles %q is no pair: write NAME=ROLE, such as support=agent", pair)
		}
		if s.Rules.Roles == nil {
			s.Rules.Roles = make(map[string]perm.Role)
		}
		s.Rules.Roles[name] = perm.Role(role)
	}
	if f.secretFile != "" {
		data, err := os.ReadFile(f.secretFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-secret-file: %w", err)
		}
		line, _, _ := strings.Cut(string(data), "\n")
		s.Provider.Secret = strings.TrimSpace(line)
		if s.Provider.Secret == "" || len(data) > maxSecretFile {
			return nil, fmt.Errorf("--oidc-secret-file %s has %d bytes: its first line has to be the secret, and it may have %d", f.secretFile, len(data), maxSecretFile)
		}
	}
	return s, nil
}
