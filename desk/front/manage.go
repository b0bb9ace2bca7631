package front

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/go-eddy/eddy/desk/admin"
	"github.com/go-eddy/eddy/desk/store"
)

// newAdmin prepares the administration pages.
func (f *Front) newAdmin() (*admin.Pages, error) {
	return admin.New(admin.Options{
		Store: f.store, Hash: f.o.Hasher.Hash, Notify: changes{f}, People: f.hub, Logger: f.o.Logger, Now: f.o.Now, HTTPS: f.o.HTTPS, Public: f.o.PublicURL,
		Asset: f.assetPath, Logo: logoPath, Mail: f.o.Mail,
		Audit: func(r *http.Request, who store.Actor, action, target, detail string) error {
			return f.audit(r.Context(), who, action, target, detail, f.address(r))
		},
	})
}

// CheckPublicURL reports an address that is neither empty nor an address of this server for browsers, which come over
// https or not.
func CheckPublicURL(address string, https bool) error {
	switch {
	case address == "":
		return nil
	case !store.ValidOrigin(address):
		return fmt.Errorf("is %q: write scheme, host and perhaps a port, such as https://desk.example", address)
	case https && !strings.HasPrefix(address, "https:"):
		return fmt.Errorf("is %q, but browsers come over https: write https://", address)
	}
	return nil
}

// assetPath returns the address of an embedded file, under the name that changes with its content.
func (f *Front) assetPath(name string) string {
	const hashChars = 12
	ext := path.Ext(name)
	if hashed := strings.TrimSuffix(name, ext) + "." + f.pages[name].etag[:hashChars] + ext; f.pages[hashed].content != nil {
		name = hashed
	}
	return "/assets/" + name
}

// manageRoutes adds the administration pages, each behind the gate staff.
func (f *Front) manageRoutes(mux *http.ServeMux) {
	for _, route := range f.admin.Routes() {
		mux.HandleFunc(route.Pattern, f.staff(route.Needs, route.Serve))
	}
}

// changes tells the running server what an administrator has changed.
type changes struct{ front *Front }

// AgentChanged implements admin.Changes. Running sessions get the account's new role and name, or end.
func (c changes) AgentChanged(ctx context.Context, a store.AgentAccount) { c.recheck(ctx, a.ID) }

// LoginsEnded implements admin.Changes.
func (c changes) LoginsEnded(ctx context.Context, agent string) { c.recheck(ctx, agent) }

func (c changes) recheck(ctx context.Context, agent string) {
	if err := c.front.hub.Recheck(ctx, agent); err != nil {
		c.front.o.Logger.Error("desk: sessions of a changed account could not be looked at and were closed", "agent", agent, "err", err)
	}
}

// GroupsChanged implements admin.Changes. The router uses what it reads next.
func (c changes) GroupsChanged(context.Context) { c.front.hub.Reload() }

// SiteChanged implements admin.Changes.
func (c changes) SiteChanged(context.Context, store.Site) { c.front.hub.Reload() }

// HooksChanged implements admin.Changes.
func (c changes) HooksChanged() { c.front.o.HooksChanged() }

// BotsChanged implements admin.Changes.
func (c changes) BotsChanged(context.Context) {}
