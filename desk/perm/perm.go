// Package perm is the one place that says what a role may do. A permission that is not listed is refused.
package perm

import "slices"

// Role is the role of a member of staff.
type Role string

// Roles. Each has the permissions that Permissions lists, and no others.
const (
	Agent      Role = "agent"
	Supervisor Role = "supervisor"
	Admin      Role = "admin"
	Auditor    Role = "auditor"
)

// Roles returns every role, the least first.
func Roles() []Role { return []Role{Agent, Auditor, Supervisor, Admin} }

// Valid reports whether the role exists.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Permission is one thing that a member of staff may be allowed to do.
type Permission string

// Permissions.
const (
	Serve      Permission = "serve"       // take conversations, write, pass them on
	ReadOthers Permission = "read_others" // read and watch conversations of other agents; each is audited
	Override   Permission = "override"    // assign, take over, pass on and close conversations of others; go beyond capacity and group
	Whisper    Permission = "whisper"     // write notes into conversations of others
	Block      Permission = "block"       // block and unblock contacts
	ViewWall   Permission = "view_wall"   // the live wall and the reports
	ForceState Permission = "force_state" // set the status of other agents, end the logins of those whose role has no more permissions
	ViewAudit  Permission = "view_audit"
	Manage     Permission = "manage"   // accounts, sites, groups, bots, canned replies, secrets
	Personal   Permission = "personal" // export everything that is known of a person, and erase it
	Private    Permission = "private"  // telephone numbers, addresses and card numbers in clear
)

// Can reports whether the role has the permission. An unknown role has none.
func (r Role) Can(p Permission) bool { return slices.Contains(r.Permissions(), p) }

// TakesChats reports whether the router gives conversations to a new account of the role, unless the account says
// otherwise. Administrators open the console to look, so they do not.
func (r Role) TakesChats() bool { return r.Can(Serve) && !r.Can(Manage) }

// Lacks returns a permission that the other role has and this one does not, or "".
func (r Role) Lacks(other Role) Permission {
	for _, p := range other.Permissions() {
		if !r.Can(p) {
			return p
		}
	}
	return ""
}

// Permissions returns what the role may do.
func (r Role) Permissions() []Permission {
	switch r {
	case Agent:
		return []Permission{Serve, Private}
	case Auditor:
		return []Permission{ReadOthers, ViewWall, ViewAudit}
	case Supervisor:
		return []Permission{Serve, ReadOthers, Override, Whisper, Block, ViewWall, ForceState, Personal, Private}
	case Admin:
		return []Permission{Serve, ReadOthers, Override, Whisper, Block, ViewWall, ForceState, ViewAudit, Manage, Personal, Private}
	}
	return nil
}

// KeyScope is one thing that an API key may be allowed to do.
type KeyScope string

// Scopes of API keys.
const (
	KeyRead     KeyScope = "read"           // list and read conversations; private data are masked
	KeySend     KeyScope = "send"           // write messages into conversations
	KeyContacts KeyScope = "contacts"       // read contacts; private data are masked
	KeyTags     KeyScope = "tags"           // add and remove tags
	KeyReports  KeyScope = "reports"        // read reports
	KeyEvents   KeyScope = "events"         // read what happens, as it happens; private data are masked
	KeyOpen     KeyScope = "open"           // open conversations
	KeyPriority KeyScope = "priority"       // say which priority a conversation has that the key opens
	KeyWrite    KeyScope = "contacts_write" // make and change contacts
)

// KeyScopes returns every scope, in the order of the pages.
func KeyScopes() []KeyScope {
	return []KeyScope{KeyRead, KeyEvents, KeySend, KeyOpen, KeyPriority, KeyContacts, KeyWrite, KeyTags, KeyReports}
}

// Valid reports whether the scope exists.
func (s KeyScope) Valid() bool { return slices.Contains(KeyScopes(), s) }
