// Package safehttp makes HTTP requests to addresses that somebody else has chosen, such as those of bots and webhooks, and
// keeps them out of this machine and its private networks: the address is checked after the name was resolved, and the
// connection goes to exactly the address that was checked. Redirects are not followed and proxies are not asked.
package safehttp
