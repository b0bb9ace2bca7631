// Package httpserve has what the HTTP servers of all versions share and what is no part of a wire: the pipe of a body, the
// context of a request, and the wait that lends a handler's worker to others.
package httpserve
