// Package sso logs staff in at an OpenID Connect provider: the authorization code flow with PKCE. It knows nothing of
// accounts. A provider that is slow, dead or hostile costs a bounded time and memory, and nobody else waits for it.
package sso
