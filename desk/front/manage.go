package front

import (
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
		Store: f.store, Hash: f.o.Hasher.Hash, People: f.hub, Logger: f.o.Logger, Now: f.o.Now, HTTPS: f.o.HTTPS, Public: f.o.PublicURL,
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
