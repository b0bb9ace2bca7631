// Package auth proves who somebody is: password hashes, bearer tokens, login throttling and single-use tickets.
package auth
