// Package admin serves the pages on which an installation is managed: accounts, sites, groups, prepared replies, bots
// and the audit log. They are forms made on the server; they need no script. A change is a POST that is answered with
// a redirect, so that it is not made again by reloading. Who may see a page is decided before it is called.
package admin
