// Package mail sends the mails of Desk. A Post takes them out of the queue in the store, has their text made and gives
// them to a mail server, one at a time on one goroutine. Whatever that server does, nothing else waits for it.
package mail
