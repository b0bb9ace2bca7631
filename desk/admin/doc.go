// Package admin serves the pages on which an installation is managed: accounts, sites, groups, prepared replies, bots
// and the audit log. They are forms made on the server and need no script; the rules of a bot have one that saves requests. A change is a POST that is answered with a
// redirect, so that reloading does not repeat it. Permissions are checked before a page is called.
package admin
