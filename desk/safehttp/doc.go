// Package safehttp makes HTTP requests to addresses that others have chosen, such as those of bots and webhooks. It
// keeps them out of this machine and its private networks. The address is checked after the name is resolved, and the
// connection goes to exactly the address that was checked. Redirects are not followed and proxies are not used.
package safehttp
